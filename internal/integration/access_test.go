// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
)

// TestAccessLog: the line of a request says who asked, what it took and what it cost, and
// nothing of what was asked.
func TestAccessLog(t *testing.T) {
	u := newUpstream(t, answerMessage)
	path := filepath.Join(t.TempDir(), "access.log")
	p := start(t, "log {\n output file "+path+"\n}\n"+plain(u))
	read(t, p.post("/v1/messages", conversation(1, false), "X-Session-Id", "s"))
	var line string
	for range 200 {
		if b, _ := os.ReadFile(path); strings.Contains(string(b), "\n") {
			line = strings.TrimSpace(string(b))
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for name, want := range map[string]string{
		"llm_model": "claude-opus-4-6", "llm_outcome": "completed", "llm_prompt_tokens": "1277", "llm_cached_tokens": "1234",
		"llm_output_tokens": "5", "llm_saved_tokens": "0",
	} {
		if got := gjson.Get(line, name).String(); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if gjson.Get(line, "llm_cost_usd").Float() <= 0 || !gjson.Get(line, "llm_saved_usd").Exists() ||
		len(gjson.Get(line, "llm_user").Str) != 16 || gjson.Get(line, "llm_session").Str == "" {
		t.Errorf("the line is %s", line)
	}
	if strings.Contains(line, "line of file") {
		t.Errorf("what was asked is in %s", line)
	}
}

// TestHealthSpeaks: load balancers learn that the upstream does not answer, and that it does
// again.
func TestHealthSpeaks(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "llm_cache {\n health /up\n}\nreverse_proxy "+u.Listener.Addr().String())
	health := func() (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.addr+"/up", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := p.client.Do(req) //nolint:bodyclose // read closes it
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, gjson.Get(read(t, response{res}), "status").Str
	}
	ask := func() { read(t, p.post("/v1/messages", conversation(1, false))) }
	if code, word := health(); code != http.StatusOK || word != "ok" {
		t.Errorf("before the first request: %d %s", code, word)
	}
	ask()
	if code, word := health(); code != http.StatusOK || word != "ok" {
		t.Errorf("it answers: %d %s", code, word)
	}
	u.CloseClientConnections()
	u.Listener.Close()
	ask()
	if code, word := health(); code != http.StatusOK || word != "degraded" {
		t.Errorf("one answer is missing: %d %s", code, word)
	}
	ask()
	ask()
	if code, word := health(); code != http.StatusServiceUnavailable || word != "failing" {
		t.Errorf("three are: %d %s", code, word)
	}
}

// TestLongNames: who sends megabytes for the name of a model, even without a key of worth, puts
// them neither on the page nor in the access log.
func TestLongNames(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusUnauthorized) })
	path := filepath.Join(t.TempDir(), "access.log")
	p := start(t, "log {\n output file "+path+"\n}\n"+plain(u))
	long := "long-name-" + strings.Repeat("x", 1<<20)
	read(t, p.post("/v1/messages", strings.Replace(conversation(1, false), "claude-opus-4-6", long, 1), "X-Session-Id",
		"s"))
	var page, log string
	for range 300 {
		w := httptest.NewRecorder()
		app.Dashboard(p.caddy.Instance).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/data", nil))
		b, _ := os.ReadFile(path)
		if page, log = w.Body.String(), string(b); strings.Contains(page, long[:100]) && strings.Contains(log, "llm_model") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !strings.Contains(page, long[:100]) || strings.Contains(page, long[:1000]) {
		t.Errorf("the page has %d bytes", len(page))
	}
	if !strings.Contains(log, "llm_model") || strings.Contains(log, long[:1000]) {
		t.Errorf("the access log has %d bytes", len(log))
	}
}
