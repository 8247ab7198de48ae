// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func newCache(t testing.TB, profile string) *pricing.Simulator {
	t.Helper()
	p, err := pricing.ProfileByName(profile)
	if err != nil {
		t.Fatal(err)
	}
	return pricing.NewSimulator(p.Config())
}

func post(h http.Handler, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	return w
}

// turn decodes a response like a client.
func turn(t *testing.T, f wire.Format, stream bool, w *httptest.ResponseRecorder) *wire.Turn {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	d := wire.NewDecoder(f, stream)
	d.Feed(w.Body.Bytes())
	turn := d.Turn()
	if !turn.Done {
		t.Fatalf("the answer has no proper end: %s", w.Body)
	}
	return turn
}

var formats = []struct {
	format wire.Format
	path   string
	tools  string
}{
	{wire.Anthropic, "/v1/messages?beta=true", `"tools":[{"name":"Bash","input_schema":{"type":"object"}}]`},
	{
		wire.OpenAIChat, "/v1/chat/completions",
		`"tools":[{"type":"function","function":{"name":"Bash"}}],"stream_options":{"include_usage":true}`,
	},
}

// All content of a step reaches a client of either API, with and without a stream, in characters of
// any width.
func TestAnswers(t *testing.T) {
	long := strings.Repeat("Größe → ✅ <&> \"quoted\"\n", 20)
	script, err := ParseScript([]byte(`[{"thinking":` + string(encode(long)) + `,"text":"I look.","calls":[
		{"name":"Bash","input":{"command":"ls -l <a> && echo \"ö\""}},{"name":"Read","input": {"path": "/a"}},{"name":"Now"}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range formats {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%t", f.format, stream), func(t *testing.T) {
				h := &Handler{Cache: newCache(t, "kv"), Script: script}
				w := post(h, f.path,
					fmt.Sprintf(`{"model":"m","max_tokens":9,"stream":%t,"messages":[{"role":"user","content":"go"}],%s}`,
						stream, f.tools))
				got := turn(t, f.format, stream, w)
				if got.Thinking != long || got.Text != "I look." {
					t.Errorf("thinking %q, text %q", got.Thinking, got.Text)
				}
				want := []string{`Bash {"command":"ls -l <a> && echo \"ö\""}`, `Read {"path":"/a"}`, `Now {}`}
				if len(got.Calls) != len(want) {
					t.Fatalf("%d calls, want %d", len(got.Calls), len(want))
				}
				ids := map[string]bool{}
				for i, c := range got.Calls {
					ids[c.ID] = true
					if c.Name+" "+c.Arguments != want[i] {
						t.Errorf("call %d is %s %s, want %s", i, c.Name, c.Arguments, want[i])
					}
				}
				if len(ids) != len(want) {
					t.Errorf("the ids of the calls are not unique: %v", got.Calls)
				}
				if !got.Usage.Reported || got.Usage.Prompt() == 0 || got.Usage.Output == 0 {
					t.Errorf("usage %+v", got.Usage)
				}
				if want := map[wire.Format]string{
					wire.Anthropic:  "tool_use",
					wire.OpenAIChat: "tool_calls",
				}[f.format]; got.StopReason != want {
					t.Errorf("stop reason %q, want %q", got.StopReason, want)
				}
			})
		}
	}
}

// A second request reads the first one's cache entry, and each API reports it in its own way.
func TestUsage(t *testing.T) {
	prompt := strings.Repeat("a long text for the cache ", 800)
	marked := `{"model":"claude-sonnet-4-6","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"` +
		prompt + `","cache_control":{"type":"ephemeral"}}]}]}`
	h := &Handler{Cache: newCache(t, "anthropic-5m")}
	var u struct {
		Usage struct {
			Input   int `json:"input_tokens"`
			Written int `json:"cache_creation_input_tokens"`
			Read    int `json:"cache_read_input_tokens"`
			Split   struct {
				FiveMinutes int `json:"ephemeral_5m_input_tokens"`
				OneHour     int `json:"ephemeral_1h_input_tokens"`
			} `json:"cache_creation"`
		} `json:"usage"`
	}
	decode := func(w *httptest.ResponseRecorder, into any) {
		t.Helper()
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	decode(post(h, "/v1/messages", marked), &u)
	written := u.Usage.Written
	if written < 1024 || u.Usage.Read != 0 || u.Usage.Input != 0 || u.Usage.Split.FiveMinutes != written ||
		u.Usage.Split.OneHour != 0 {
		t.Errorf("first request: %+v", u.Usage)
	}
	decode(post(h, "/v1/messages", marked), &u)
	if u.Usage.Read != written || u.Usage.Written != 0 || u.Usage.Input != 0 {
		t.Errorf("second request: %+v, want %d read", u.Usage, written)
	}

	h = &Handler{Cache: newCache(t, "openai")}
	var o struct {
		Usage struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached  int `json:"cached_tokens"`
				Written int `json:"cache_write_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	body := `{"model":"gpt-6.1-sol","messages":[{"role":"user","content":"` + prompt + `"}]}`
	decode(post(h, "/v1/chat/completions", body), &o)
	first := o.Usage.Prompt
	decode(post(h, "/v1/chat/completions", body), &o)
	if o.Usage.Prompt != first || o.Usage.Details.Cached == 0 || o.Usage.Details.Cached > first {
		t.Errorf("the prompt counts what was read: first %d, then %+v", first, o.Usage)
	}
}

func TestErrors(t *testing.T) {
	orphan := `{"model":"claude-sonnet-4-6","max_tokens":9,"messages":[{"role":"user","content":"go"},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b","input":{}}]},{"role":"user","content":"no ` +
		`result"}]}`
	tests := map[string]struct {
		method, path, body string
		status             int
		kind               string
	}{
		"refused":        {"POST", "/v1/messages", orphan, 400, "invalid_request_error"},
		"not json":       {"POST", "/v1/messages", `{"model":`, 400, "invalid_request_error"},
		"not json, chat": {"POST", "/v1/chat/completions", `[]`, 400, "invalid_request_error"},
		"unknown path":   {"POST", "/v1/other", `{}`, 404, "not_found_error"},
		"too large":      {"POST", "/v1/messages", strings.Repeat(" ", maxBody+1), 413, "request_too_large"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			h := &Handler{Cache: newCache(t, "anthropic-5m")}
			h.ServeHTTP(w, httptest.NewRequest(test.method, test.path, strings.NewReader(test.body)))
			var e struct {
				Error struct{ Type, Message string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
				t.Fatal(err)
			}
			if w.Code != test.status || e.Error.Type != test.kind || e.Error.Message == "" {
				t.Errorf("status %d, %+v", w.Code, e.Error)
			}
			if w.Header().Get("Request-Id")+w.Header().Get("X-Request-Id") == "" {
				t.Error("no request id")
			}
		})
	}
}

func TestOtherEndpoints(t *testing.T) {
	h := &Handler{Cache: newCache(t, "anthropic-5m")}
	for _, test := range []struct{ method, path, body, want string }{
		{"HEAD", "/", "", ""},
		{"GET", "/v1/models", "", `"id":"simulated"`},
		{
			"POST", "/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"some words"}]}`,
			`{"input_tokens":`,
		},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(test.method, test.path, strings.NewReader(test.body)))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s %s: %d %s", test.method, test.path, w.Code, w.Body)
		}
	}
}

// A request for no output gets none, and fills the cache.
func TestNoAnswer(t *testing.T) {
	h := &Handler{Cache: newCache(t, "anthropic-5m")}
	got := turn(t, wire.Anthropic, false, post(h, "/v1/messages",
		`{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"go"}]}`))
	if got.Text != "" || got.Usage.Output != 0 || got.StopReason != "max_tokens" {
		t.Errorf("%+v", got)
	}
}

func TestPaceEndsWithTheClient(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := &Handler{Cache: newCache(t, "kv"), Pace: time.Hour}
	r := httptest.NewRequest(http.MethodPost, "/v1/messages",
		strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"go"}]}`))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(ctx))
	if w.Body.Len() != 0 {
		t.Errorf("a client that is gone was sent %q", w.Body)
	}
}
