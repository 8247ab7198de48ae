// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// streamed is an answer in a format: events of text, events of a call of the expand tool, and the
// final events. path and body make a request for it.
type streamed struct {
	format     wire.Format
	path, body string
	begin      []string
	text       string
	call, end  []string
}

func event(kind, data string) string {
	if kind != "" {
		kind = "event: " + kind + "\n"
	}
	return kind + "data: " + data + "\n\n"
}

const expandArguments = `"{\"ids\":[\"00000000\"]}"`

var streams = []streamed{
	{
		wire.Anthropic, "/v1/messages",
		`{"model":"claude-opus-4-6","max_tokens":1000,"stream":true,"tools":[{"name":"Read",` +
			`"input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"Go."}]}`,
		[]string{
			event("message_start",
				`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-6",`+
					`"content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}`),
			event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
		},
		event("content_block_delta",
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"A few words more. "}}`),
		[]string{
			event("content_block_stop", `{"type":"content_block_stop","index":0}`),
			event("content_block_start",
				`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1",`+
					`"name":"mcp__llm_cache__expand","input":{}}}`),
			event("content_block_delta",
				`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":`+expandArguments+`}}`),
			event("content_block_stop", `{"type":"content_block_stop","index":1}`),
			event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}`),
		},
		[]string{
			event("message_delta",
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`),
			event("message_stop", `{"type":"message_stop"}`),
		},
	},
	{
		wire.OpenAIChat, "/v1/chat/completions",
		`{"model":"gpt-6.1","stream":true,"tools":[{"type":"function","function":{"name":"read","parameters":{}}}],` +
			`"messages":[{"role":"user","content":"Go."}]}`,
		[]string{event("",
			`{"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant",`+
				`"content":""},"finish_reason":null}]}`)},
		event("",
			`{"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"A few words `+
				`more. "},"finish_reason":null}]}`),
		[]string{
			event("",
				`{"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,`+
					`"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"mcp__llm_cache__expand",`+
					`"arguments":`+expandArguments+`}}]},"finish_reason":null}]}`),
			event("",
				`{"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},`+
					`"finish_reason":"tool_calls"}]}`),
			event("", `[DONE]`),
		},
		[]string{event("",
			`{"id":"c1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`), event("", `[DONE]`)},
	},
	{
		wire.OpenAIResponses, "/v1/responses",
		`{"model":"gpt-6.1","stream":true,"store":false,"tools":[{"type":"function","name":"read","parameters":{}}],` +
			`"input":[{"type":"message","role":"user","content":"Go."}]}`,
		[]string{
			event("response.created",
				`{"type":"response.created","response":{"id":"resp_1","status":"in_progress","model":"m","output":[]}}`),
			event("response.output_item.added",
				`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant",`+
					`"content":[]}}`),
		},
		event("response.output_text.delta",
			`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"A few words `+
				`more. "}`),
		[]string{
			event("response.output_item.done",
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant",`+
					`"content":[{"type":"output_text","text":"A few words more. "}]}}`),
			event("response.output_item.added",
				`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc_1",`+
					`"call_id":"call_1","name":"mcp__llm_cache__expand","arguments":""}}`),
			event("response.output_item.done",
				`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc_1",`+
					`"call_id":"call_1","name":"mcp__llm_cache__expand","arguments":`+expandArguments+`}}`),
			event("response.completed",
				`{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[],`+
					`"usage":{"input_tokens":3,"output_tokens":9}}}`),
		},
		[]string{
			event("response.output_item.done",
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant",`+
					`"content":[{"type":"output_text","text":"A few words more. "}]}}`),
			event("response.completed",
				`{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[],`+
					`"usage":{"input_tokens":3,"output_tokens":9}}}`),
		},
	},
	{
		wire.Gemini, "/v1beta/models/gemini-3.1-pro:streamGenerateContent?alt=sse",
		`{"contents":[{"role":"user","parts":[{"text":"Go."}]}],"tools":[{"functionDeclarations":[{"name":"read"}]}]}`,
		nil,
		event("",
			`{"candidates":[{"content":{"parts":[{"text":"A few words more. "}],"role":"model"},"index":0}],`+
				`"usageMetadata":{"promptTokenCount":3},"responseId":"r1"}`),
		[]string{event("",
			`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"1","name":"mcp__llm_cache__expand",`+
				`"args":{"ids":["00000000"]}}}],"role":"model"},"finishReason":"STOP","index":0}],`+
				`"usageMetadata":{"promptTokenCount":3},"responseId":"r1"}`)},
		[]string{event("",
			`{"candidates":[{"content":{"parts":[{"text":"."}],"role":"model"},"finishReason":"STOP","index":0}],`+
				`"usageMetadata":{"promptTokenCount":3},"responseId":"r1"}`)},
	},
}

// request returns a request for the answer.
func (s *streamed) request(tb testing.TB, session string) *http.Request {
	tb.Helper()
	r := request([]byte(s.body), session)
	u, err := url.Parse("http://example.com" + s.path)
	if err != nil {
		tb.Fatal(err)
	}
	r.URL = u
	return r
}

// client records the bytes that it gets.
type client struct {
	sink
	got bytes.Buffer
}

func (c *client) Write(p []byte) (int, error) { return c.got.Write(p) }

// send serves an answer in pieces, and returns the client's bytes after each of them. A
// continuation is answered at once.
func (s *streamed) send(t *testing.T, mode stage.Mode, pieces []string) (had []string, asked int) {
	t.Helper()
	c := &client{sink: sink{http.Header{}}}
	h := attached(t, pipeline.Options{Expand: pipeline.Expand{Mode: mode}})
	err := h.ServeHTTP(c, s.request(t, "s"), caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return err
		}
		w.Header()["Content-Type"] = []string{"text/event-stream"}
		w.WriteHeader(http.StatusOK)
		if asked++; asked > 1 {
			_, err := io.WriteString(w, strings.Join(s.begin, "")+s.text+strings.Join(s.end, ""))
			return err
		}
		for _, p := range pieces {
			if _, err := io.WriteString(w, p); err != nil {
				return err
			}
			had = append(had, c.got.String())
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	return had, asked
}

// TestTextIsNeverLater: interception does not delay text. The client has each event of text as soon
// as the upstream has written it, as without interception, measured by the order of writes. An
// event in pieces arrives with its last piece.
func TestTextIsNeverLater(t *testing.T) {
	for i := range streams {
		s := &streams[i]
		before := slices.Concat(s.begin, []string{s.text, s.text, s.text})
		whole := slices.Concat(before, s.call)
		plain, n := s.send(t, stage.Off, whole)
		hiding, m := s.send(t, stage.On, whole)
		if n != 1 || m != 2 {
			t.Errorf("%s: the upstream was asked %d and %d times", s.format, n, m)
		}
		for i := range before {
			if hiding[i] != plain[i] {
				t.Errorf("%s: after event %d the client has\n%s\nwithout interception\n%s", s.format, i, hiding[i], plain[i])
			}
		}
		var halves []string
		for _, e := range whole {
			halves = append(halves, e[:len(e)/2], e[len(e)/2:])
		}
		pieces, _ := s.send(t, stage.On, halves)
		for i := range before {
			if pieces[2*i+1] != plain[i] {
				t.Errorf("%s: in pieces, after event %d the client has\n%s", s.format, i, pieces[2*i+1])
			}
		}
	}
}

// BenchmarkStream measures the cost of an event of text in the handler, in conversations with the
// expand tool and without.
func BenchmarkStream(b *testing.B) {
	const events = 1000
	for i := range streams {
		s := &streams[i]
		pieces := make([][]byte, 0, events+8)
		for _, e := range s.begin {
			pieces = append(pieces, []byte(e))
		}
		for range events {
			pieces = append(pieces, []byte(s.text))
		}
		for _, e := range s.end {
			pieces = append(pieces, []byte(e))
		}
		next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return err
			}
			w.Header()["Content-Type"] = []string{"text/event-stream"}
			w.WriteHeader(http.StatusOK)
			for _, p := range pieces {
				if _, err := w.Write(p); err != nil {
					return err
				}
			}
			return nil
		})
		for _, mode := range []stage.Mode{stage.Off, stage.On} {
			b.Run(fmt.Sprintf("%s/expand_%s", s.format, mode), func(b *testing.B) {
				h := attached(b, pipeline.Options{Expand: pipeline.Expand{Mode: mode}})
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					n++
					if err := h.ServeHTTP(&sink{http.Header{}}, s.request(b, "s"), next); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*events), "ns/event")
			})
		}
	}
}
