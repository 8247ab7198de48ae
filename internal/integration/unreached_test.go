// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// TestUnreachedIsMonitored: an upstream that is down is counted and logged by Caddy as
// without llm_cache, and the client has an error of its own API unless an error route of
// the site takes the request.
func TestUnreachedIsMonitored(t *testing.T) {
	const (
		other  = "http://other.example%s {\nrespond hello\nhandle_errors {\nrespond other 500\n}\n}"
		routed = "routed"
	)
	for _, c := range []struct {
		name, errors string // of the site
		others       string
		status       int
		body         string // routed, or an error of the API
	}{
		{"no error routes", "", "", 502, ""},
		{"error routes of another site", "", other, 502, ""},
		{"error routes for other statuses", "handle_errors 404 {\nrespond gone 404\n}", other, 502, ""},
		{"error routes for other paths", "handle_errors {\nrespond /elsewhere routed 500\n}", "", 502, ""},
		{"error routes of the site", "handle_errors 502 {\nrespond routed 500\n}", other, 500, routed},
	} {
		t.Run(c.name, func(t *testing.T) {
			counted, logged := map[string]float64{}, map[string]int{}
			for _, site := range []string{"", "llm_cache"} {
				p := start(t, "respond 204")
				p.move()
				log := filepath.Join(t.TempDir(), "errors.log")
				port := p.addr[strings.LastIndexByte(p.addr, ':'):]
				others := c.others
				if others != "" {
					others = fmt.Sprintf(others, port)
				}
				p.load(p.adapt(fmt.Sprintf("{\nadmin %s\npersist_config off\nauto_https off\ngrace_period 100ms\nmetrics\nlog "+
					"{\noutput file %s\nlevel ERROR\n}\n}\n%s\nhttp://mine.example%s {\n%s\nreverse_proxy %s\n%s\n}\n",
					p.admin, log, others, port, site, testkit.FreeAddress(t), c.errors)))
				p.host = "mine.example"
				r := p.post("/v1/messages",
					`{"model":"claude-sonnet-5","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`)
				body := read(t, r)
				if site != "" {
					if r.StatusCode != c.status {
						t.Errorf("got status %d, want %d", r.StatusCode, c.status)
					}
					if c.body != "" && body != c.body || c.body == "" && gjson.Get(body, "error.type").Str == "" {
						t.Errorf("got body %q, want %q, or an error of the API for nothing", body, c.body)
					}
				}
				var metrics string
				p.adminDo(http.MethodGet, "/metrics", &metrics)
				for line := range strings.Lines(metrics) {
					if strings.HasPrefix(line, "caddy_http_request_errors_total{") {
						counted[site]++
					}
				}
				b, err := os.ReadFile(log)
				if err != nil {
					t.Fatal(err)
				}
				logged[site] = strings.Count(string(b), `"logger":"http.log.error`)
			}
			if (counted["llm_cache"] > 0) != (counted[""] > 0) || counted[""] == 0 {
				t.Errorf("got %v counters of errors with llm_cache, %v without", counted["llm_cache"], counted[""])
			}
			if logged["llm_cache"] != logged[""] {
				t.Errorf("got %d errors in the log with llm_cache, want %d as without", logged["llm_cache"], logged[""])
			}
		})
	}
}

// TestBoxDown: while a box is down, each client has an error of its own API within 10 s that names the box,
// those that wait for a slot too.
func TestBoxDown(t *testing.T) {
	dial := cmp.Or(hanging(t), testkit.FreeAddress(t))
	p := start(t, "llm_cache {\nupstream mlx_lm\nqueue {\nslots 1\n}\n}\nreverse_proxy "+dial)
	began := time.Now()
	var wg sync.WaitGroup
	for _, c := range []struct{ path, body string }{
		{"/v1/messages", `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`},
		{"/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"ho"}]}`},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`},
		{"/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`},
		{"/v1/responses", `{"model":"m","stream":true,"input":"hi"}`},
		{"/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`},
	} {
		wg.Go(func() {
			r := p.post(c.path, c.body)
			body := read(t, r)
			if got := gjson.Get(body, "error.message").Str; r.StatusCode/100 != 5 || !strings.HasPrefix(got, "mlx_lm: ") {
				t.Errorf("%s: got status %d, %q, want an error that names mlx_lm", c.path, r.StatusCode, body)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s: got an answer after %s, want it within 10 s", c.path, took)
			}
		})
	}
	wg.Wait()
}
