// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// traced is a request with a span of Caddy's around it.
func traced(tracer trace.Tracer, r *http.Request) (*http.Request, trace.Span) {
	ctx, span := tracer.Start(r.Context(), "caddy")
	return r.WithContext(ctx), span
}

// TestSpan: a request has one span by the conventions in force and never by both, the child
// of Caddy's and the parent of what is behind. What was asked and the key are not in it.
func TestSpan(t *testing.T) {
	const v141, latest = "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_write.input_tokens"
	for _, c := range []struct{ optIn, has, not string }{
		{"", v141, latest},
		{"http, gen_ai_latest_experimental", latest, v141},
	} {
		t.Setenv("OTEL_SEMCONV_STABILITY_OPT_IN", c.optIn)
		spans := tracetest.NewSpanRecorder()
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
		h := attached(t, pipeline.Options{})
		r, parent := traced(tracer, request(growing(2<<10, 1)[0], "s"))
		var passed string
		err := h.ServeHTTP(&sink{http.Header{}}, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			passed = r.Header.Get("Traceparent")
			return endpoint.ServeHTTP(w, r)
		}))
		if err != nil {
			t.Fatal(err)
		}
		ended := spans.Ended()
		if len(ended) != 1 {
			t.Fatalf("%d spans", len(ended))
		}
		s := ended[0]
		if s.Parent().SpanID() != parent.SpanContext().SpanID() || s.SpanKind() != trace.SpanKindClient ||
			s.Name() != "chat claude-opus-4-6" {
			t.Errorf("%s, %s, child of %s", s.Name(), s.SpanKind(), s.Parent().SpanID())
		}
		if !strings.Contains(passed, s.SpanContext().SpanID().String()) || r.Header.Get("Traceparent") != "" {
			t.Errorf("the upstream's parent is %q; behind us the client's is %q", passed, r.Header.Get("Traceparent"))
		}
		got := map[attribute.Key]string{}
		for _, a := range s.Attributes() {
			got[a.Key] = a.Value.String()
		}
		for key, want := range map[attribute.Key]string{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-opus-4-6",
			"gen_ai.request.max_tokens": "1000",
			"gen_ai.response.id":        "msg_1", "gen_ai.response.finish_reasons": `["end_turn"]`,
			"gen_ai.usage.input_tokens": "1277", "gen_ai.usage.output_tokens": "5",
			"gen_ai.usage.cache_read.input_tokens": "1234", attribute.Key(c.has): "40",
			"llm_cache.policy": "cost_aware", "http.response.status_code": "200",
		} {
			if got[key] != want {
				t.Errorf("%s is %q, not %q", key, got[key], want)
			}
		}
		if _, ok := got[attribute.Key(c.not)]; ok || got["user.hash"] == "" ||
			got["gen_ai.response.time_to_first_chunk"] == "" {
			t.Errorf("%v", got)
		}
		for key, value := range got {
			if strings.Contains(value, "Fix the build") || strings.Contains(value, "You are an agent") || value == "key" {
				t.Errorf("%s says %q", key, value)
			}
		}
	}
}

// TestSpanFailure: a request that fails says how.
func TestSpanFailure(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	h := attached(t, pipeline.Options{})
	for _, next := range []caddyhttp.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusTooManyRequests)
			return nil
		},
		func(http.ResponseWriter, *http.Request) error {
			return caddyhttp.Error(http.StatusBadGateway, http.ErrHandlerTimeout)
		},
	} {
		r, _ := traced(tracer, request(growing(2<<10, 1)[0], "s"))
		_ = h.ServeHTTP(&sink{http.Header{}}, r, next)
	}
	want := []string{"429", "failed"}
	for i, s := range spans.Ended() {
		kind := ""
		for _, a := range s.Attributes() {
			if a.Key == "error.type" {
				kind = a.Value.AsString()
			}
		}
		if kind != want[i] || s.Status().Code != codes.Error {
			t.Errorf("error %q, %s", kind, s.Status().Code)
		}
	}
	if n := len(spans.Ended()); n != len(want) {
		t.Errorf("%d spans", n)
	}
}

// BenchmarkSpan measures all that a request's span costs it: off is without Caddy's handler
// tracing. Both hand the request on once.
func BenchmarkSpan(b *testing.B) {
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(sdktrace.NewBatchSpanProcessor(tracetest.NewNoopExporter()))).Tracer("test")
	body := growing(2<<10, 1)[0]
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	for _, on := range []bool{false, true} {
		b.Run(map[bool]string{false: "off", true: "on"}[on], func(b *testing.B) {
			r := request(body, "s")
			if on {
				r, _ = traced(tracer, r)
			}
			x := prepared(b, attached(b, pipeline.Options{}), r, body)
			x.status, x.turn = http.StatusOK, &wire.Turn{
				ID: "msg_1", Model: "claude-opus-4-6", StopReason: "end_turn",
				Usage: wire.Usage{Reported: true, Read: 1234},
			}
			b.ReportAllocs()
			for b.Loop() {
				if parent := trace.SpanFromContext(r.Context()); parent.IsRecording() {
					x.span = x.trace(r.Context(), parent)
					_ = x.span.Layer(next).ServeHTTP(nil, r)
					x.endSpan(r.Context())
				}
			}
		})
	}
}
