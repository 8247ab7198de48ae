// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// TestAskForUsage: the option is added to the client's own bytes.
func TestAskForUsage(t *testing.T) {
	tests := []struct {
		name, body, want string
	}{
		{
			"no options", `{"model":"m","messages":[{"role":"user","content":"a"}]}` + "\n",
			`{"model":"m","messages":[{"role":"user","content":"a"}],"stream_options":{"include_usage":true}}` + "\n",
		},
		{
			"other options", `{"stream_options":{"include_obfuscation":false},"messages":[{"role":"user","content":"a"}]}`,
			`{"stream_options":{"include_obfuscation":false,"include_usage":true},"messages":[{"role":"user","content":"a"}]}`,
		},
		{
			"declined", `{"stream_options": {"include_usage" : false},"messages":[{"role":"user","content":"a"}]}`,
			`{"stream_options": {"include_usage" : true},"messages":[{"role":"user","content":"a"}]}`,
		},
		{
			"null", `{"messages":[{"role":"user","content":"a"}],"stream_options":null}`,
			`{"messages":[{"role":"user","content":"a"}],"stream_options":{"include_usage":true}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, err := wire.Parse(wire.OpenAIChat, []byte(tt.body), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(askForUsage(&wire.Body{Raw: v.Raw}, v.Reply.StreamOptions).Bytes()); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestUsageFilter: the chunk of the usage is taken out of a stream, wherever the stream
// is split, and every other byte passes.
func TestUsageFilter(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}`
	event := func(data, end string) string { return "data: " + data + end + end }
	for _, end := range []string{"\n", "\r\n", "\r"} {
		first := event(`{"id":"c","choices":[{"index":0,"delta":{"content":"a"}}],"usage":null}`, end)
		last := event(`{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, end)
		extra := event(`{"id":"c","choices":[],`+usage+`}`, end)
		done := event("[DONE]", end)
		tests := []struct{ name, in, want string }{
			{"a chunk of its own", first + last + extra + done, first + last + done},
			{"a stream cut before it", first, first},
			{"a stream cut amid an event", first + last[:9], first + last[:9]},
			{
				"the usage in the last chunk", event(`{"choices":[{"index":0,"finish_reason":"stop"}],`+usage+`}`, end) + done,
				event(`{"choices":[{"index":0,"finish_reason":"stop"}],`+usage+`}`, end) + done,
			},
			{
				"a filter's result without choices", event(`{"choices":[],"prompt_filter_results":[],"usage":null}`, end) + extra,
				event(`{"choices":[],"prompt_filter_results":[],"usage":null}`, end),
			},
			{
				"a text that says usage", event(`{"choices":[{"delta":{"content":"\"usage\""}}]}`, end),
				event(`{"choices":[{"delta":{"content":"\"usage\""}}]}`, end),
			},
		}
		for _, tt := range tests {
			for split := range len(tt.in) + 1 {
				rec := httptest.NewRecorder()
				f := newUsageFilter(rec)
				f.Header().Set("Content-Type", "text/event-stream")
				f.WriteHeader(http.StatusOK)
				for _, p := range []string{tt.in[:split], tt.in[split:]} {
					if n, err := f.Write([]byte(p)); n != len(p) || err != nil {
						t.Fatal(n, err)
					}
				}
				f.Spill()
				if got := rec.Body.String(); got != tt.want {
					t.Fatalf("%s, split at %d: got %q, want %q", tt.name, split, got, tt.want)
				}
			}
		}
	}
}

// TestUsageIsAskedFor: the upstream of a chat stream is asked for its usage unless the
// client asks itself, and not again where it refuses that.
func TestUsageIsAskedFor(t *testing.T) {
	const asked, chunk = `"stream_options":{"include_usage":true}`,
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":50,\"completion_tokens\":2}}\n\n"
	const said = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}," +
		"\"finish_reason\":\"stop\"}]}\n\n"
	body := func(more string) string {
		return `{"model":"m","messages":[{"role":"user","content":"hello"}]` + more + `}`
	}
	type sent struct {
		more  string // members of the request
		want  string // what arrives upstream of the options, by request
		usage bool   // the client gets the chunk
	}
	for _, tt := range []struct {
		name    string
		policy  pipeline.Policy
		refuses bool
		sent    []sent
	}{
		{
			"asked each time", pipeline.CostAware, false,
			[]sent{{`,"stream":true`, "asked", false}, {`,"stream":true`, "asked", false}},
		},
		{"the client's own", pipeline.CostAware, false, []sent{{`,"stream":true,` + asked, "asked", true}}},
		{"no stream", pipeline.CostAware, false, []sent{{"", "plain", false}}},
		{"observed", pipeline.Observe, false, []sent{{`,"stream":true`, "plain", false}}},
		{"refused", pipeline.CostAware, true, []sent{
			{`,"stream":true`, "asked plain", false},
			{`,"stream":true`, "plain", false},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := attached(t, pipeline.Options{Policy: tt.policy})
			for i, s := range tt.sent {
				var got []string
				w := httptest.NewRecorder()
				r := request([]byte(body(s.more)), fmt.Sprint("s", i))
				r.URL.Path = "/v1/chat/completions"
				if err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
					b, err := io.ReadAll(r.Body)
					if err != nil {
						return err
					}
					if strings.Contains(string(b), asked) {
						got = append(got, "asked")
						if tt.refuses {
							w.WriteHeader(http.StatusUnprocessableEntity)
							_, err = io.WriteString(w, `{"detail":"extra_forbidden"}`)
							return err
						}
					} else {
						got = append(got, "plain")
					}
					w.Header().Set("Content-Type", "text/event-stream")
					if _, err = io.WriteString(w, said); err == nil && strings.Contains(string(b), asked) {
						_, err = io.WriteString(w, chunk)
					}
					return err
				})); err != nil {
					t.Fatal(err)
				}
				if strings.Join(got, " ") != s.want {
					t.Errorf("request %d: got %q, want %q", i, strings.Join(got, " "), s.want)
				}
				want := said
				if s.usage {
					want += chunk
				}
				if w.Code != http.StatusOK || w.Body.String() != want {
					t.Errorf("request %d: got %d %q, want %q", i, w.Code, w.Body, want)
				}
			}
		})
	}
}
