// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

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
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// tracerName is the instrumentation scope of spans.
const tracerName = "github.com/caddy-llm-cache/caddy-llm-cache"

// conventions are the names of the OpenTelemetry conventions for generative AI that
// differ between two versions of them. Never both are used: whoever sums up what they
// do not know would count twice.
type conventions struct {
	schema     string
	cacheWrite attribute.Key
	compacted  attribute.Key // "": has no name
}

var (
	// conventions141 are those of version 1.41, the last in the general conventions.
	conventions141 = &conventions{
		schema:     "https://opentelemetry.io/schemas/1.41.0",
		cacheWrite: "gen_ai.usage.cache_creation.input_tokens",
	}
	// conventionsLatest are those of the repository that they have moved to.
	conventionsLatest = &conventions{
		schema:     "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev",
		cacheWrite: "gen_ai.usage.cache_write.input_tokens",
		compacted:  "gen_ai.conversation.compacted",
	}
)

// conventionsInForce are those that the environment asks for, as the conventions' own rule
// for transitions has it.
func conventionsInForce() *conventions {
	for name := range strings.SplitSeq(os.Getenv("OTEL_SEMCONV_STABILITY_OPT_IN"), ",") {
		if strings.TrimSpace(name) == "gen_ai_latest_experimental" {
			return conventionsLatest
		}
	}
	return conventions141
}

// propagators write a span into a request's header as Caddy's handler tracing does, whose
// own span has been written there before.
var propagators = sync.OnceValue(func() propagation.TextMapPropagator { return autoprop.NewTextMapPropagator() })

// span is the span of a request to a model: the child of Caddy's own, and the parent of
// whatever the upstream makes.
type span struct {
	trace.Span
	names *conventions
}

// trace begins the span of a request, nil where Caddy traces nothing or has not chosen to
// trace this one.
func (c *requestState) trace(ctx context.Context) *span {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return nil
	}
	up, v, names := c.site.up, c.view, c.site.conventions
	operation, target := up.Operation(v.Format), up.Target(v.Format)
	attributes := make([]attribute.KeyValue, 0, 10)
	attributes = append(attributes,
		attribute.String("gen_ai.operation.name", operation),
		attribute.String("gen_ai.provider.name", up.Provider(v.Format)),
		attribute.String("gen_ai.request.model", v.Model),
		attribute.Bool("gen_ai.request.stream", v.Stream),
		attribute.String("gen_ai.conversation.id", c.session.ID()),
		attribute.String("user.hash", c.person.Hash),
		attribute.String("llm_cache.policy", string(c.ex.Policy)),
		attribute.String("llm_cache.format", string(v.Format)),
	)
	if c.person.Name != c.person.Hash {
		attributes = append(attributes, attribute.String("user.name", c.person.Name))
	}
	if v.MaxTokens > 0 {
		attributes = append(attributes, attribute.Int("gen_ai.request.max_tokens", v.MaxTokens))
	}
	tracer := parent.TracerProvider().Tracer(tracerName, trace.WithSchemaURL(names.schema))
	_, s := tracer.Start(ctx, operation+" "+v.Model, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(c.began), trace.WithAttributes(attributes...))
	if d := &c.ex.Decision; d.Folded > 0 && c.ex.Edited {
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
	return &span{s, names}
}

// layer returns next such that it takes the span for its parent, in this process and
// beyond.
func (s *span) layer(next caddyhttp.Handler) caddyhttp.Handler {
	if s == nil {
		return next
	}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		ctx := trace.ContextWithSpan(r.Context(), s.Span)
		propagators().Inject(ctx, propagation.HeaderCarrier(r.Header))
		return next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// event notes that something has happened.
func (s *span) event(name string, attributes ...attribute.KeyValue) {
	if s != nil {
		s.AddEvent(name, trace.WithAttributes(attributes...))
	}
}

// end ends the span with what is known of the answer; never with what was asked or said.
func (s *span) end(ctx context.Context, c *requestState) {
	if s == nil {
		return
	}
	defer s.Span.End()
	l, x := &c.logged, c.ex
	attributes := make([]attribute.KeyValue, 0, 24)
	attributes = append(attributes,
		attribute.Int("llm_cache.tokens.original", x.OriginalTokens), attribute.Int("llm_cache.tokens.sent", c.sent()),
		attribute.String("llm_cache.stages", c.transforms()), attribute.Float64("llm_cache.overhead", c.overhead.Seconds()))
	if x.Decision.Epoch != "" {
		attributes = append(attributes, attribute.String("llm_cache.decision", x.Decision.String()))
	}
	if x.Break != "" {
		attributes = append(attributes, attribute.String("llm_cache.break", string(x.Break)))
	}
	if l.priced {
		attributes = append(attributes, attribute.Float64("llm_cache.cost.usd", l.cost), attribute.Float64("llm_cache.cost.client_usd", l.own))
	}
	if c.status != 0 {
		attributes = append(attributes, attribute.Int("http.response.status_code", c.status))
	}
	attributes = append(attributes, server(ctx)...)
	reason := ""
	if t := c.turn; t != nil {
		attributes, reason = append(attributes, s.answer(t)...), t.StopReason
		attributes = append(attributes, attribute.Float64("llm_cache.wait", t.Timing.Queue.Seconds()))
	}
	if l.outcome == outcomeInterrupted {
		reason = "error" // so the conventions have it, whatever came before
	}
	if reason != "" {
		attributes = append(attributes, attribute.StringSlice("gen_ai.response.finish_reasons", []string{reason}))
	}
	if what := c.failure(); what != "" {
		attributes = append(attributes, attribute.String("error.type", what))
		s.SetStatus(codes.Error, "")
	}
	s.SetAttributes(attributes...)
}

// answer is what the answer itself says.
func (s *span) answer(t *wire.Turn) []attribute.KeyValue {
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

// Where the model was in the end, as reverse_proxy says it.
const (
	upstreamHost     = "http.reverse_proxy.upstream.host"
	upstreamPort     = "http.reverse_proxy.upstream.port"
	upstreamHostPort = "http.reverse_proxy.upstream.hostport"
)

func placeholder(ctx context.Context, name string) string {
	repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	s, _ := repl.GetString(name)
	return s
}

// server is where the model was in the end, if reverse_proxy has said so.
func server(ctx context.Context) []attribute.KeyValue {
	host := placeholder(ctx, upstreamHost)
	if host == "" {
		return nil
	}
	out := []attribute.KeyValue{attribute.String("server.address", host)}
	if n, err := strconv.Atoi(placeholder(ctx, upstreamPort)); err == nil {
		out = append(out, attribute.Int("server.port", n))
	}
	return out
}

// failure names what went wrong in a request, "" for nothing: the provider's word, the
// status, or how it ended.
func (c *requestState) failure() string {
	switch {
	case c.logged.outcome == audit.Completed:
		return ""
	case c.turn != nil && c.turn.ErrorType != "":
		return c.turn.ErrorType
	case c.status >= http.StatusBadRequest:
		return strconv.Itoa(c.status)
	case c.logged.outcome == "":
		return "_OTHER"
	}
	return c.logged.outcome
}
