// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

// Tracing makes the OpenTelemetry span of a request to a model.

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// tracerName is the instrumentation scope of spans.
const tracerName = "github.com/caddy-llm-cache/caddy-llm-cache"

// propagators write a span into a request's header, over the span that Caddy's handler tracing has
// written there.
var propagators = sync.OnceValue(func() propagation.TextMapPropagator { return autoprop.NewTextMapPropagator() })

// Span is the span of a request to a model: the child of Caddy's own, and the parent of the upstream's
// spans. A nil Span does nothing.
type Span struct {
	trace.Span
	names *spanConventions
}

// spanRequest describes a request before it is sent upstream.
type spanRequest struct {
	// View is the client's request, and Exchange the edited one.
	View     *wire.View
	Exchange *pipeline.Exchange
	// Upstream is its target.
	Upstream *upstream.Profile
	// Person asks, and Session is the public id of the conversation.
	Person  tenant.Person
	Session string
	// Began is the time of its arrival.
	Began time.Time
}

// Begin begins the span of a request, nil where Caddy traces nothing or has not chosen to
// trace this one; then it is not asked for the request.
func (names *spanConventions) Begin(ctx context.Context, request func() spanRequest) *Span {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return nil
	}
	c := request()
	up, v := c.Upstream, c.View
	operation, target, model := up.Operation(v.Format), up.Target(v.Format), audit.Bounded(v.Model)
	attributes := make([]attribute.KeyValue, 0, 10)
	attributes = append(attributes,
		attribute.String("gen_ai.operation.name", operation),
		attribute.String("gen_ai.provider.name", up.Provider(v.Format)),
		attribute.String("gen_ai.request.model", model),
		attribute.Bool("gen_ai.request.stream", v.Reply.Stream),
		attribute.String("gen_ai.conversation.id", c.Session),
		attribute.String("user.hash", c.Person.Hash),
		attribute.String("llm_cache.policy", string(c.Exchange.Policy)),
		attribute.String("llm_cache.format", string(v.Format)),
	)
	if c.Person.Name != c.Person.Hash {
		attributes = append(attributes, attribute.String("user.name", c.Person.Name))
	}
	if v.Reply.MaxTokens > 0 {
		attributes = append(attributes, attribute.Int("gen_ai.request.max_tokens", v.Reply.MaxTokens))
	}
	tracer := parent.TracerProvider().Tracer(tracerName, trace.WithSchemaURL(names.schema))
	_, s := tracer.Start(ctx, operation+" "+model, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(c.Began), trace.WithAttributes(attributes...))
	if d := &c.Exchange.Decision; d.Folded > 0 && c.Exchange.Prompt.Edited {
		s.AddEvent("llm_cache.fold", trace.WithAttributes(
			attribute.String("llm_cache.epoch", string(d.Epoch)), attribute.Int("llm_cache.blocks", d.Folded),
			attribute.Int("llm_cache.removed_tokens", d.Removed), attribute.Int("llm_cache.rewritten_tokens", d.Rewritten)))
		if names.compacted != "" {
			s.SetAttributes(names.compacted.Bool(true))
		}
	}
	if target != v.Format {
		s.AddEvent("llm_cache.translate", trace.WithAttributes(
			attribute.String("llm_cache.from", string(v.Format)), attribute.String("llm_cache.to", string(target))))
	}
	return &Span{s, names}
}

// Layer returns next such that it takes the span for its parent, in this process and
// beyond.
func (s *Span) Layer(next caddyhttp.Handler) caddyhttp.Handler {
	if s == nil {
		return next
	}
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

// spanAnswer describes a request at its end.
type spanAnswer struct {
	// Exchange is the edited request, Sent its length in tokens, Stages the stages that
	// have edited it.
	Exchange *pipeline.Exchange
	Sent     int
	Stages   string
	// Overhead is our own time before it was sent upstream.
	Overhead time.Duration
	// Outcome is the word for its end, as in a record, and Status that of the answer, 0 for
	// none.
	Outcome string
	Status  int
	// Turn is the answer, nil if it was not read.
	Turn *wire.Turn
	// Cost is in dollars, and ClientCost the cost of the client's own bytes; Priced reports
	// whether the model has a price.
	Cost, ClientCost float64
	Priced           bool
}

// End ends the span with figures of the answer, never with content.
func (s *Span) End(ctx context.Context, a *spanAnswer) {
	defer s.Span.End()
	x := a.Exchange
	attributes := make([]attribute.KeyValue, 0, 24)
	attributes = append(attributes,
		attribute.Int("llm_cache.tokens.original", x.Prompt.OriginalTokens), attribute.Int("llm_cache.tokens.sent", a.Sent),
		attribute.String("llm_cache.stages", a.Stages), attribute.Float64("llm_cache.overhead", a.Overhead.Seconds()))
	if x.Decision.Epoch != "" {
		attributes = append(attributes, attribute.String("llm_cache.decision", x.Decision.String()))
	}
	if x.Lesson.Break != "" {
		attributes = append(attributes, attribute.String("llm_cache.break", string(x.Lesson.Break)))
	}
	if a.Priced {
		attributes = append(attributes, attribute.Float64("llm_cache.cost.usd", a.Cost), attribute.Float64("llm_cache.cost.client_usd", a.ClientCost))
	}
	if a.Status != 0 {
		attributes = append(attributes, attribute.Int("http.response.status_code", a.Status))
	}
	attributes = append(attributes, server(ctx)...)
	reason := ""
	if t := a.Turn; t != nil {
		attributes, reason = append(attributes, s.answer(t)...), t.StopReason
		attributes = append(attributes, attribute.Float64("llm_cache.wait", t.Timing.Queue.Seconds()))
	}
	if a.Outcome == audit.Interrupted {
		reason = "error" // as the conventions have it, also after a stop reason
	}
	if reason != "" {
		attributes = append(attributes, attribute.StringSlice("gen_ai.response.finish_reasons", []string{reason}))
	}
	if what := a.failure(); what != "" {
		attributes = append(attributes, attribute.String("error.type", what))
		s.SetStatus(codes.Error, "")
	}
	s.SetAttributes(attributes...)
}

// answer returns the attributes of an answer.
func (s *Span) answer(t *wire.Turn) []attribute.KeyValue {
	attributes := make([]attribute.KeyValue, 0, 8)
	if t.ID != "" {
		attributes = append(attributes, attribute.String("gen_ai.response.id", t.ID))
	}
	if t.Model != "" {
		attributes = append(attributes, attribute.String("gen_ai.response.model", t.Model))
	}
	if d := t.Timing.FirstToken; d > 0 {
		attributes = append(attributes, attribute.Float64("gen_ai.response.time_to_first_chunk", d.Seconds()))
	}
	u := &t.Usage
	if !u.Reported {
		return attributes
	}
	return append(attributes,
		attribute.Int64("gen_ai.usage.input_tokens", u.Prompt()), // those of the cache included
		attribute.Int64("gen_ai.usage.output_tokens", u.Output),
		attribute.Int64("gen_ai.usage.cache_read.input_tokens", u.Read),
		s.names.cacheWrite.Int64(u.Write5m+u.Write1h))
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

// failure names the error of a request, "" for none: the provider's word, the status, or the outcome.
func (a *spanAnswer) failure() string {
	switch {
	case a.Outcome == audit.Completed:
		return ""
	case a.Turn != nil && a.Turn.ErrorType != "":
		return a.Turn.ErrorType
	case a.Status >= http.StatusBadRequest:
		return strconv.Itoa(a.Status)
	case a.Outcome == "":
		return "_OTHER"
	}
	return a.Outcome
}
