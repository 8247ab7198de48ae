// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func TestProvidersOnly(t *testing.T) {
	for _, c := range []struct {
		format wire.Format
		body   string
		want   Unheld
	}{
		{wire.Anthropic, `{"model":"m","messages":[{"role":"user","content":"a \"compaction\" and a \"container\""}]}`, ""},
		{wire.Anthropic, `{"model":"m","container":null,"messages":[{"role":"user","content":"a"}]}`, ""},
		{wire.Anthropic, `{"model":"m","container":"c_1","messages":[{"role":"user","content":"a"}]}`, "container"},
		{wire.Anthropic, `{"model":"m","messages":[{"role":"user","content":"a"}],"container":{"id":"c"}}`, "container"},
		{
			wire.Anthropic,
			`{"model":"m","messages":[{"role":"assistant","content":[{"type":"compaction","content":"sum"}]},{"role":"user",` +
				`"content":"a"}]}`, "compaction",
		},
		{
			wire.Anthropic,
			`{"model":"m","context_management":{"edits":[{"type":"compact_20260112"}]},"messages":[{"role":"user",` +
				`"content":"a"}]}`, "context_management",
		},
		{
			wire.Anthropic,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t",` +
				`"content":"{\"type\":\"compaction\"}"}]}]}`, "",
		},
		{
			wire.Anthropic, `{"model":"m","safeguards":[{"type":"auto_mode"}],"messages":[{"role":"user","content":"a"}]}`,
			"safeguards",
		},
		{
			wire.Anthropic, `{"model":"m","messages":[{"role":"user","content":"a"}],"safeguards": [ {"type":"auto_mode"} ]}`,
			"safeguards",
		},
		{wire.Anthropic, `{"model":"m","safeguards":[],"messages":[{"role":"user","content":"a"}]}`, ""},
		{
			wire.Anthropic,
			`{"model":"m","safeguards":null,"messages":[{"role":"user","content":[{"type":"tool_use","id":"t","name":"f",` +
				`"input":{"safeguards":[1]}}]}]}`, "",
		},
		{wire.OpenAIChat, `{"model":"m","messages":[{"role":"user","content":"a"}],"compaction":{"x":1}}`, "compaction"},
		{
			wire.OpenAIResponses,
			`{"model":"m","input":[{"type":"compaction","encrypted_content":"x"},{"role":"user","content":"a"}]}`, "compaction",
		},
		{wire.OpenAIResponses, `{"model":"m","input":[{"role":"user","content":"a"}],"conversation":"c_1"}`, "conversation"},
		{
			wire.OpenAIResponses,
			`{"model":"m","input":[{"role":"user","content":"a"}],"context_management":[{"type":"compaction",` +
				`"compact_threshold":1000}]}`, "context_management",
		},
	} {
		v, err := wire.Parse(c.format, []byte(c.body), nil)
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		if got := ProvidersOnly(v); got != c.want {
			t.Errorf("%s asks for %q of its provider, want %q", c.body, got, c.want)
		}
	}
}

// The id of an answer that no provider keeps is replaced, after any earlier events and in any
// pieces. Earlier events are not delayed.
func TestUnkept(t *testing.T) {
	const ping, start, rest = ": ping\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n",
		"event: message_start\ndata: {\"message\":{\"id\":\"msg_1\"}}\n\n", "data: {\"message\":{\"id\":\"msg_2\"}}\n\n"
	for _, size := range []int{1, 7, 1000} {
		for kind, sent := range map[string]string{
			"text/event-stream": ping + start + rest,
			"application/json":  `{"type":"message","id":"msg_1","content":[{"id":"msg_2"}]}`, "text/plain": "msg_1",
		} {
			w := httptest.NewRecorder()
			early := ""
			next := caddyhttp.HandlerFunc(func(w2 http.ResponseWriter, _ *http.Request) error {
				w2.Header().Set("Content-Type", kind)
				for at := 0; at < len(sent); at += size {
					if at <= len(ping)+1 {
						early = w.Body.String()
					}
					piece := []byte(sent[at:min(at+size, len(sent))])
					if _, err := w2.Write(piece); err != nil {
						return err
					}
					if !strings.HasPrefix(sent[at:], string(piece)) { // it may be the buffer of a request that goes on
						t.Errorf("%s in pieces of %d: a write has changed its bytes to %q", kind, size, piece)
					}
				}
				return nil
			})
			if err := Unkept(next).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil)); err != nil {
				t.Fatal(err)
			}
			want := sent
			if kind != "text/plain" {
				want = strings.Replace(sent, "msg_1", "gen_1", 1)
			}
			if got := w.Body.String(); got != want {
				t.Errorf("%s in pieces of %d: got %q, want %q", kind, size, got, want)
			}
			if kind == "text/event-stream" && size == 1 && early != ping {
				t.Errorf("before the id the client has %q", early)
			}
		}
	}
}
