// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// How a request ended.
const (
	outcomeCompleted   = "completed"   // the answer came to its proper end
	outcomeFailed      = "failed"      // the upstream answered with an error, or not at all
	outcomeInterrupted = "interrupted" // the answer was cut, or could not be read
	outcomePassed      = "passed"      // failed open: forwarded untouched
	outcomeNoRoom      = "no_room"     // answered by 503: no room for its body in memory
	outcomeStalled     = "stalled"     // answered by 503: its body stalled while others needed the memory
	outcomeRefused     = "too_large"   // answered by 413
	outcomeBudget      = "budget"      // answered by 429: a budget is spent
	outcomeUnrecorded  = "unrecorded"  // answered by 503: the audit store fails, and on_error is refuse
	outcomeUnheld      = "unheld"      // goes on from an answer at an upstream that keeps none: answered by 400
)

// Why a request or its answer was not read.
const (
	reasonContentType    = "content_type"
	reasonSigned         = "signed"
	reasonEncoding       = "content_encoding"
	reasonDecode         = "decode"
	reasonBomb           = "bomb" // it decodes to far more than was sent
	reasonParse          = "parse"
	reasonSplice         = "splice"
	reasonStore          = "store"
	reasonNoRoom         = "no_room" // for its body in memory
	reasonAnswerEncoding = "answer_encoding"
)

// outcomes are all of them.
var outcomes = [...]string{
	outcomeCompleted, outcomeFailed, outcomeInterrupted, outcomePassed, outcomeNoRoom, outcomeStalled, outcomeRefused, outcomeBudget, outcomeUnrecorded, outcomeUnheld,
}

var hiddenLost = metric.Counter("hidden_turns_lost_total", "Requests in which what had been hidden from the client could not be put back, because the client has changed the message that it belongs to.")

var boundedUsages = metric.Counter("usage_bounded_total", "Answers whose usage was beyond the model's window or the request's bound on the answer. No more than these are charged.")

var cutPrompts = metric.Counter("cut_prompts_total", "Answers of local servers that count less than half of the prompt that was sent, and no more than of the one before: the context length is too low.")

// tellBounded has the log say so once.
var tellBounded sync.Once

var metrics = struct {
	requests *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	edits    *prometheus.CounterVec
	breaks   *prometheus.CounterVec
	regret   *prometheus.CounterVec
	words    prometheus.Counter
	first    prometheus.Histogram
	overhead prometheus.Histogram
}{
	requests: metric.CounterVec("requests_total", "Requests to model endpoints, by policy and how they ended.", "policy", "outcome"),
	tokens: metric.CounterOf("tokens_total", "Tokens by bucket: uncached, write_5m, write_1h, read and output as upstreams reported them, removed as estimated.", "bucket",
		"uncached", "write_5m", "write_1h", "read", "output", "removed"),
	edits: metric.CounterOf("edits_total", "Edits in requests sent, those repeated from earlier requests included, by stage.", "stage",
		stage.All[:]...),
	breaks: metric.CounterOf("breaks_total", "Requests for which the upstream's cache held less than expected, by cause.", "cause",
		string(pipeline.BreakExpired), string(pipeline.BreakModel), string(pipeline.BreakTools), string(pipeline.BreakSystem),
		string(pipeline.BreakMessages), string(pipeline.BreakServerEdit), string(pipeline.BreakEdit), string(pipeline.BreakUnknown)),
	regret: metric.CounterOf("regret_total", "Signs that models have missed folded text: they asked for it (expand), read its file again (reread), or an edit did not find its place (edit).", "sign",
		"expand", "reread", "edit"),
	words: metric.Counter("compress_saved_tokens_total", "Tokens by which words that were left out have shortened prompts, as estimated."),
	first: metric.Histogram("first_token_seconds", "Time from when a request was handed on to the first text, thinking or call of its answer.",
		0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160),
	overhead: metric.Histogram("overhead_seconds", "Own time before a request is handed on, without the time its body took to arrive.",
		0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05),
}

// outcomesOf returns the counters of a site's requests, by how they end. They are there
// before its first request, and need not be found with each.
func outcomesOf(p pipeline.Policy) map[string]prometheus.Counter {
	all := make(map[string]prometheus.Counter, len(outcomes))
	for _, outcome := range outcomes {
		all[outcome] = metrics.requests.WithLabelValues(string(p), outcome)
	}
	return all
}

func (o *records) count(outcome string) { o.outcomes[outcome].Inc() }

// buckets are the counters of tokens, found once.
var buckets = struct{ uncached, write5m, write1h, read, output, removed prometheus.Counter }{
	uncached: metrics.tokens.WithLabelValues("uncached"),
	write5m:  metrics.tokens.WithLabelValues("write_5m"),
	write1h:  metrics.tokens.WithLabelValues("write_1h"),
	read:     metrics.tokens.WithLabelValues("read"),
	output:   metrics.tokens.WithLabelValues("output"),
	removed:  metrics.tokens.WithLabelValues("removed"),
}

// signs are the counters of regret, found once.
var signs = struct{ expand, reread, edit prometheus.Counter }{
	expand: metrics.regret.WithLabelValues("expand"),
	reread: metrics.regret.WithLabelValues("reread"),
	edit:   metrics.regret.WithLabelValues("edit"),
}

// add spares the counter an atomic operation where n is 0, as it is most of the time.
func add[N int | int64](c prometheus.Counter, n N) {
	if n > 0 {
		c.Add(float64(n))
	}
}

// countRequest counts the figures known before a request is sent upstream.
func countRequest(x *pipeline.Exchange, overhead time.Duration) {
	metrics.overhead.Observe(overhead.Seconds())
	if !x.Prompt.Edited {
		return
	}
	for _, f := range x.Prompt.Fired {
		metrics.edits.WithLabelValues(f.Stage).Add(float64(f.Count))
	}
}

// countLesson counts cache breaks, signs of regret, and the savings of edits.
func countLesson(x *pipeline.Exchange, saved int) {
	if cause := x.Lesson.Break; cause != pipeline.NoBreak {
		metrics.breaks.WithLabelValues(string(cause)).Inc()
	}
	g := &x.Lesson.Regret
	add(signs.expand, g.Expanded)
	add(signs.reread, g.Reread)
	add(signs.edit, g.Failed)
	if x.Prompt.Edited {
		add(metrics.words, x.Prompt.Compressed.Tokens)
		add(buckets.removed, saved)
	}
}

// countAnswer counts the cost of an answer, nil for none.
func countAnswer(t *wire.Turn) {
	if t == nil {
		return
	}
	if d := t.Timing.FirstToken; d > 0 {
		metrics.first.Observe(d.Seconds())
	}
	countTokens(t.Usage)
}

// countTokens counts the usage that an upstream has reported, also for internal requests.
func countTokens(u wire.Usage) {
	if !u.Reported {
		return
	}
	add(buckets.uncached, u.Uncached)
	add(buckets.write5m, u.Write5m)
	add(buckets.write1h, u.Write1h)
	add(buckets.read, u.Read)
	add(buckets.output, u.Output)
}
