// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// All content of a step reaches a client of the Gemini API, in each of the three forms of
// responses.
func TestGeminiAnswers(t *testing.T) {
	long := strings.Repeat("Größe → ✅ <&> \"quoted\"\n", 20)
	script, err := ParseScript([]byte(`[{"thinking":` + string(encode(long)) + `,"text":"I look.","calls":[
		{"name":"run_shell_command","input":{"command":"ls -l <a>"}},{"name":"now"}]},{}]`))
	if err != nil {
		t.Fatal(err)
	}
	body := `{"contents":[{"role":"user","parts":[{"text":"go"}]}],"tools":[{"functionDeclarations":[{"name":"now"}]}]}`
	for _, c := range []struct {
		path, kind string
		stream     bool
	}{
		{":generateContent", "application/json", false},
		{":streamGenerateContent?alt=sse", "text/event-stream; charset=utf-8", true},
		{":streamGenerateContent", "application/json; charset=UTF-8", false},
	} {
		h := &Handler{Cache: newCache(t, "gemini"), Script: script}
		w := post(h, "/v1beta/models/gemini-3.1-pro"+c.path, body)
		if got := w.Header().Get("Content-Type"); got != c.kind {
			t.Errorf("%s: Content-Type %q", c.path, got)
		}
		got := turn(t, wire.Gemini, c.stream, w)
		if got.Thinking != long || got.Text != "I look." || got.StopReason != "STOP" || got.Model != "gemini-3.1-pro" {
			t.Errorf("%s: %+v", c.path, got)
		}
		if len(got.Calls) != 2 || got.Calls[0].Name != "run_shell_command" ||
			got.Calls[0].Arguments != `{"command":"ls -l <a>"}` || got.Calls[1].Arguments != "{}" ||
			got.Calls[1].ID == got.Calls[0].ID {
			t.Errorf("%s: calls %+v", c.path, got.Calls)
		}
		if got.Usage.Prompt() == 0 || got.Usage.Output == 0 {
			t.Errorf("%s: usage %+v", c.path, got.Usage)
		}
		if n := strings.Count(w.Body.String(), `"thoughtSignature"`); n != 1 {
			t.Errorf("%s: %d of two parallel calls are signed, want the first", c.path, n)
		}
		if !c.stream && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: not JSON: %s", c.path, w.Body)
		}
	}
}

func TestGeminiUsageAndErrors(t *testing.T) {
	h := &Handler{Cache: newCache(t, "gemini")}
	const path = "/v1beta/models/gemini-3.1-pro:generateContent?key=k"
	prompt := func(more string) string {
		return `{"contents":[{"role":"user","parts":[{"text":"` + strings.Repeat("a long text for the cache ", 800) + `"}]}` +
			more + `]}`
	}
	var u struct {
		Usage struct {
			PromptTokenCount, CachedContentTokenCount, TotalTokenCount,
			CandidatesTokenCount int
		} `json:"usageMetadata"`
	}
	ask := func(body string) {
		t.Helper()
		u.Usage.CachedContentTokenCount = 0
		if err := json.Unmarshal(post(h, path, body).Body.Bytes(), &u); err != nil {
			t.Fatal(err)
		}
	}
	ask(prompt(""))
	first := u.Usage
	if first.CachedContentTokenCount != 0 || first.TotalTokenCount != first.PromptTokenCount+first.CandidatesTokenCount {
		t.Errorf("first request: %+v", first)
	}
	ask(prompt(`,{"role":"model","parts":[{"text":"a"}]},{"role":"user","parts":[{"text":"b"}]}`))
	if u.Usage.CachedContentTokenCount != first.PromptTokenCount || u.Usage.PromptTokenCount <= first.PromptTokenCount {
		t.Errorf("second request: %+v after %+v", u.Usage, first)
	}
	orphan := `{"contents":[{"role":"user","parts":[{"functionResponse":{"name":"a","response":{"output":"x"}}}]}]}`
	for path, array := range map[string]bool{
		"/v1beta/models/m:generateContent":               false,
		"/v1beta/models/m:streamGenerateContent?alt=sse": false,
		"/v1beta/models/m:streamGenerateContent":         true,
	} {
		w := post(h, path, orphan)
		var one struct {
			Error struct {
				Code            int
				Status, Message string
			}
		}
		body := w.Body.Bytes()
		if array {
			body = body[1 : len(body)-1]
		}
		if err := json.Unmarshal(body, &one); err != nil {
			t.Fatal(err)
		}
		if e := one.Error; w.Code != http.StatusBadRequest || e.Code != w.Code || e.Status != "INVALID_ARGUMENT" ||
			e.Message == "" {
			t.Errorf("%s: %d %+v", path, w.Code, e)
		}
	}
	if w := post(h, "/v1beta/models/m:countTokens", prompt("")); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), `{"totalTokens":`) {
		t.Errorf("countTokens: %d %s", w.Code, w.Body)
	}
}
