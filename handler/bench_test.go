// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/clock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// growing is a conversation of about size bytes and how it grows, turn by turn.
func growing(size, steps int) [][]byte { return growingBy(min(size/600+1, 40), size, steps) }

// growingBy is growing with results of so many lines.
func growingBy(lines, size, steps int) [][]byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"claude-opus-4-6","max_tokens":1000,"system":[{"type":"text","text":"You are an agent.",` +
		`"cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"Fix the build."}`)
	var bodies [][]byte
	for i := 0; len(bodies) < steps; i++ {
		fmt.Fprintf(&b,
			`,{"role":"assistant","content":[{"type":"text","text":"Reading on."},{"type":"tool_use","id":"toolu_%d",`+
				`"name":"Read","input":{"file_path":"/src/file%d.go"}}]},{"role":"user","content":[{"type":"tool_result",`+
				`"tool_use_id":"toolu_%d","content":"`, i, i, i)
		for line := range lines {
			fmt.Fprintf(&b, `%d: func name%d(a, b int) (int, error) { return a*%d + b, nil }\n`, line, i, line)
		}
		b.WriteString(`"}]}`)
		if b.Len() >= size {
			bodies = append(bodies, append(bytes.Clone(b.Bytes()), `]}`...))
		}
	}
	return bodies
}

// sink is a client's connection.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}

var answerBytes = []byte(`{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-6",` +
	`"content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn","usage":{"input_tokens":3,` +
	`"cache_creation_input_tokens":40,"cache_read_input_tokens":1234,"output_tokens":5}}`)

var chatAnswer = []byte(`{"id":"chatcmpl-1","object":"chat.completion","model":"m","choices":[{"index":0,` +
	`"message":{"role":"assistant","content":"Done."},"finish_reason":"stop"}],"usage":{"prompt_tokens":1277,` +
	`"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":1234}}}`)

// endpoint reads the request and answers, as a proxy in front of a model would.
var endpoint = answering(answerBytes)

func answering(answer []byte) caddyhttp.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return err
		}
		w.Header()["Content-Type"] = []string{"application/json"}
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(answer))}
		w.WriteHeader(http.StatusOK)
		_, err := w.Write(answer)
		return err
	}
}

func attached(tb testing.TB, o pipeline.Options) *Handler {
	tb.Helper()
	store, err := sessioncache.New(sessioncache.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	h := &Handler{Options: o}
	if err := h.Open(state.New(shared.Process, store, nil, clock.Machine), nil, nil, zap.NewNop()); err != nil {
		tb.Fatal(err)
	}
	return h
}

// prepared returns the exchange of a request after its edits.
func prepared(tb testing.TB, h *Handler, r *http.Request, body []byte) *exchange {
	tb.Helper()
	x := &exchange{passage: passage{site: h.site}}
	x.Format, _ = wire.Detect(r.Method, r.URL.Path)
	x.came.Data, x.Tenant = body, h.site.store.Tenants().Of(r)
	if why := x.prepare(r); why.reason != "" || why.view != nil {
		tb.Fatalf("not prepared: %+v", why)
	}
	return x
}

func request(body []byte, session string) *http.Request {
	ctx := context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewReplacer())
	ctx = context.WithValue(ctx, caddyhttp.VarsCtxKey, map[string]any{})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://example.com/v1/messages",
		io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		panic(err)
	}
	r.ContentLength = int64(len(body))
	r.Header["Content-Type"] = []string{"application/json"}
	r.Header["X-Api-Key"] = []string{"key"}
	r.Header["X-Session-Id"] = []string{session}
	return r
}

// BenchmarkServeHTTP measures what the handler adds to a request of a known
// and growing conversation; bare is the same without it.
func BenchmarkServeHTTP(b *testing.B) {
	const steps = 16
	session := 0 // each conversation has its own, so that its turns are new to it
	for _, size := range []int{2 << 10, 200 << 10, 1 << 20} {
		bodies := growing(size, steps)
		run := func(name string, serve func(http.ResponseWriter, *http.Request) error) {
			b.Run(fmt.Sprintf("%s/%dKB", name, size>>10), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(bodies[steps/2])))
				i := 0
				for b.Loop() {
					step := i % (steps - 1)
					if step == 0 { // another conversation, begun outside of the measurement
						b.StopTimer()
						session++
						if err := serve(&sink{http.Header{}}, request(bodies[0], strconv.Itoa(session))); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
					if err := serve(&sink{http.Header{}}, request(bodies[step+1], strconv.Itoa(session))); err != nil {
						b.Fatal(err)
					}
					i++
				}
			})
		}
		run("bare", endpoint.ServeHTTP)
		for _, policy := range []pipeline.Policy{pipeline.Observe, pipeline.CostAware, pipeline.Eager} {
			h := attached(b, pipeline.Options{Policy: policy})
			run(string(policy), func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, endpoint) })
		}
	}
}

// BenchmarkTurns measures known requests of conversations by how many turns they have, each
// a call and a result of one line.
func BenchmarkTurns(b *testing.B) {
	for _, turns := range []int{10, 100, 500, 2000} {
		b.Run(strconv.Itoa(turns), func(b *testing.B) {
			bodies := growingBy(1, turns*330, 64)
			h := attached(b, pipeline.Options{})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				step := i % (len(bodies) - 1)
				if step == 0 { // another conversation, begun outside of the measurement
					b.StopTimer()
					if err := h.ServeHTTP(&sink{http.Header{}}, request(bodies[0], strconv.Itoa(i)), endpoint); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				if err := h.ServeHTTP(&sink{http.Header{}}, request(bodies[step+1], strconv.Itoa(i-step)), endpoint); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// chat is growingBy in chat completions.
func chat(size, steps int) [][]byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"gpt-5.2","max_completion_tokens":1000,"messages":[{"role":"system","content":"You are an ` +
		`agent."},{"role":"user","content":"Fix the build."}`)
	var bodies [][]byte
	for i := 0; len(bodies) < steps; i++ {
		fmt.Fprintf(&b,
			`,{"role":"assistant","content":"Reading on.","tool_calls":[{"id":"call_%d","type":"function",`+
				`"function":{"name":"Read","arguments":"{\"file_path\":\"/src/file%d.go\"}"}}]},{"role":"tool",`+
				`"tool_call_id":"call_%d","content":"`, i, i, i)
		for line := range 40 {
			fmt.Fprintf(&b, `%d: func name%d(a, b int) (int, error) { return a*%d + b, nil }\n`, line, i, line)
		}
		b.WriteString(`"}`)
		if b.Len() >= size {
			bodies = append(bodies, append(bytes.Clone(b.Bytes()), `],"stream":true}`...))
		}
	}
	return bodies
}

// BenchmarkLayers measures known requests through what stands between the handler and
// other upstreams than the client's own.
func BenchmarkLayers(b *testing.B) {
	of := map[string][][]byte{"/v1/chat/completions": chat(200<<10, 16), "/v1/messages": growing(200<<10, 16)}
	for _, c := range []struct {
		path, preset string
		answer       []byte
	}{
		{"/v1/chat/completions", "openai", chatAnswer},
		{"/v1/chat/completions", "anthropic", answerBytes},
		{"/v1/chat/completions", "deepseek", chatAnswer},
		{"/v1/chat/completions", "mlx_lm", chatAnswer},
		{"/v1/messages", "mlx_lm", chatAnswer},
	} {
		endpoint := answering(c.answer)
		bodies := of[c.path]
		b.Run(strings.TrimPrefix(c.path, "/v1/")+" to "+c.preset, func(b *testing.B) {
			store, err := sessioncache.New(sessioncache.Options{})
			if err != nil {
				b.Fatal(err)
			}
			h := &Handler{Upstream: &upstream.Upstream{Preset: c.preset}}
			if err := h.Open(state.New(shared.Process, store, nil, clock.Machine), nil, nil, zap.NewNop()); err != nil {
				b.Fatal(err)
			}
			serve := func(body []byte, session int) {
				r := request(body, strconv.Itoa(session))
				r.URL.Path = c.path
				if err := h.ServeHTTP(&sink{http.Header{}}, r, endpoint); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(bodies[0])))
			for i := 0; b.Loop(); i++ {
				step := i % (len(bodies) - 1)
				if step == 0 { // another conversation, begun outside of the measurement
					b.StopTimer()
					serve(bodies[0], i)
					b.StartTimer()
				}
				serve(bodies[step+1], i-step)
			}
		})
	}
}

// BenchmarkFirstRequest measures a long conversation that nobody has seen before, as after
// a restart: all of it is read and hashed.
func BenchmarkFirstRequest(b *testing.B) {
	for _, size := range []int{2 << 10, 200 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			h := attached(b, pipeline.Options{})
			body := growing(size, 1)[0]
			name := bytes.Index(body, []byte("Fix the build."))
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for i := 0; b.Loop(); i++ {
				copy(body[name:], fmt.Sprintf("%014d", i)) // another one
				if err := h.ServeHTTP(&sink{http.Header{}}, request(body, strconv.Itoa(i)), endpoint); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
