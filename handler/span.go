// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
)

// Tracing makes the OpenTelemetry span of a request to a model.

const tracerName = "github.com/caddy-llm-cache/caddy-llm-cache"

// propagators write a span into a request's header, over the span of Caddy's tracing.
var propagators = sync.OnceValue(func() propagation.TextMapPropagator { return autoprop.NewTextMapPropagator() })

// Span is the span of a request to a model: the child of Caddy's own, and the parent of the upstream's
// spans. A nil Span does nothing.
type Span struct {
	trace.Span
	names *spanConventions
}

// trace begins the span of the request, a child of Caddy's.
func (x *exchange) trace(ctx context.Context, parent trace.Span) *Span {
	up, v, names := x.site.up, x.View, x.site.records.conventions
	operation, target, model := up.Operation(x.Format), up.Target(x.Format), audit.Bounded(v.Model)
	attributes := make([]attribute.KeyValue, 0, 10)
	attributes = append(attributes,
		attribute.String("gen_ai.operation.name", operation),
		attribute.String("gen_ai.provider.name", up.Provider(x.Format)),
		attribute.String("gen_ai.request.model", model),
		attribute.Bool("gen_ai.request.stream", v.Reply.Stream),
		attribute.String("gen_ai.conversation.id", x.Session),
		attribute.String("user.hash", x.user.Hash),
		attribute.String("llm_cache.policy", string(x.Edit.Policy)),
		attribute.String("llm_cache.format", string(x.Format)),
	)
	if x.user.Name != x.user.Hash {
		attributes = append(attributes, attribute.String("user.name", x.user.Name))
	}
	if v.Reply.MaxTokens > 0 {
		attributes = append(attributes, attribute.Int("gen_ai.request.max_tokens", v.Reply.MaxTokens))
	}
	tracer := parent.TracerProvider().Tracer(tracerName, trace.WithSchemaURL(names.schema))
	_, s := tracer.Start(ctx, operation+" "+model, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(x.record.At),
		trace.WithAttributes(attributes...))
	if d := &x.Edit.Decision; d.Folded > 0 && x.Edit.Prompt.Edited {
		s.AddEvent("llm_cache.fold", trace.WithAttributes(
			attribute.String("llm_cache.epoch", string(d.Epoch)), attribute.Int("llm_cache.blocks", d.Folded),
			attribute.Int("llm_cache.removed_tokens", d.Removed), attribute.Int("llm_cache.rewritten_tokens", d.Rewritten)))
		if names.compacted != "" {
			s.SetAttributes(names.compacted.Bool(true))
		}
	}
	if target != x.Format {
		s.AddEvent("llm_cache.translate", trace.WithAttributes(
			attribute.String("llm_cache.from", string(x.Format)), attribute.String("llm_cache.to", string(target))))
	}
	return &Span{s, names}
}

// Layer returns next such that it takes the span for its parent, in this process and beyond.
func (s *Span) Layer(next caddyhttp.Handler) caddyhttp.Handler {
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		ctx := trace.ContextWithSpan(r.Context(), s.Span)
		propagators().Inject(ctx, propagation.HeaderCarrier(r.Header))
		return next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Event notes that something has happened.
func (s *Span) Event(name string, attributes ...attribute.KeyValue) {
	if s != nil {
		s.AddEvent(name, trace.WithAttributes(attributes...))
	}
}

// server is the address that reverse_proxy has reached.
func server(ctx context.Context) []attribute.KeyValue {
	host := upstream.Reached(ctx, upstream.Host)
	if host == "" {
		return nil
	}
	out := []attribute.KeyValue{attribute.String("server.address", host)}
	if n, err := strconv.Atoi(upstream.Reached(ctx, upstream.Port)); err == nil {
		out = append(out, attribute.Int("server.port", n))
	}
	return out
}

// spanConventions are the names of the OpenTelemetry conventions for generative AI that
// differ between two versions of them. Only one version is used: a backend that sums attributes
// would count both.
type spanConventions struct {
	schema     string
	cacheWrite attribute.Key
	compacted  attribute.Key // "": has no name
}

var (
	// version141 are those of version 1.41, the last in the general conventions.
	version141 = &spanConventions{
		schema:     "https://opentelemetry.io/schemas/1.41.0",
		cacheWrite: "gen_ai.usage.cache_creation.input_tokens",
	}
	// latest are those of the repository that they have moved to.
	latest = &spanConventions{
		schema:     "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev",
		cacheWrite: "gen_ai.usage.cache_write.input_tokens",
		compacted:  "gen_ai.conversation.compacted",
	}
)

// spanConventionsInForce returns the conventions that the environment asks for.
func spanConventionsInForce() *spanConventions {
	// The variable is the conventions' own rule for transitions.
	for name := range strings.SplitSeq(os.Getenv("OTEL_SEMCONV_STABILITY_OPT_IN"), ",") {
		if strings.TrimSpace(name) == "gen_ai_latest_experimental" {
			return latest
		}
	}
	return version141
}
