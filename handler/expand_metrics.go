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
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/caddy-llm-cache/caddy-llm-cache/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// expandResults are what a model gets that asks for a folded text.
var expandResults = []string{"whole", "part", "unknown", "refused"}

// What became of a continuation.
const (
	continuationAnswered = "answered"
	continuationFailed   = "failed"
	continuationLimit    = "limit"
)

var (
	expansions = metric.Known(metric.CounterVec("expansions_total",
		"Folded blocks that models asked for again, by the class of the tool whose text it was and what they got: whole, part, unknown, or refused (a call whose arguments held a stub).",
		"class", "result"), sessioncache.ClassNames(), expandResults)
	continuations = metric.CounterOf("continuations_total", "Answers to calls of the expand tool that the upstream was asked to go on from: answered, failed, or limit (asked too often in one turn).", "result",
		continuationAnswered, continuationFailed, continuationLimit)
	hiddenLost = metric.Counter("hidden_turns_lost_total", "Requests in which what had been hidden from the client could not be put back, because the client has changed the message that it belongs to.")
)

// countExpansions counts what models asked for again. The labels are bounded: a
// tool counts under its class.
func countExpansions(all []pipeline.Expansion) {
	for _, e := range all {
		expansions.WithLabelValues(e.Class.String(), expanded(&e)).Inc()
	}
}

// expanded tells what the model got.
func expanded(e *pipeline.Expansion) string {
	switch {
	case e.Refused:
		return "refused"
	case e.Unknown:
		return "unknown"
	case e.Part:
		return "part"
	}
	return "whole"
}

// continuation is one request by which the upstream was asked to go on.
type continuation struct {
	at     time.Time
	reason string // what the model had asked for, and got
}

// went notes a continuation that begins. The expansions are those that it
// carries.
func (c *requestState) went(carried []pipeline.Expansion) {
	counts := map[string]int{}
	for i := range carried {
		counts[expanded(&carried[i])]++
	}
	var parts []string
	for _, result := range expandResults {
		if n := counts[result]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, result))
		}
	}
	reason := strings.Join(parts, ", ")
	c.continued = append(c.continued, continuation{time.Now(), reason})
	c.span.event("llm_cache.expand", attribute.String("llm_cache.texts", reason))
}

// apart puts continuations on record by themselves, and takes what they cost out
// of the turn's record: the client's own bytes would not have cost it. The
// client's side, all answers included, stays with the turn.
func (a *account) apart(c *requestState) {
	turn := a.record
	for i, b := range c.ex.Continuations() {
		if i >= len(c.continued) {
			return
		}
		k, end := &c.continued[i], time.Now()
		if i+1 < len(c.continued) {
			end = c.continued[i+1].at
		}
		rec := &audit.Record{
			ID: audit.NewID(k.at), At: k.at, Turns: 1, Kind: audit.KindExpand, Tenant: turn.Tenant, User: turn.User, Session: turn.Session, Lineage: turn.Lineage,
			Client: turn.Client, Model: turn.Model, ClientFormat: turn.ClientFormat, UpstreamFormat: turn.UpstreamFormat, Policy: turn.Policy, Stream: turn.Stream,
			Billed: tokens(b.Actual), Cost: b.Cost, USD: b.Dollars, Outcome: audit.Completed, Reason: k.reason, Status: turn.Status, Total: end.Sub(k.at),
		}
		t := &turn.Billed
		t.Uncached, t.Write5m, t.Write1h = t.Uncached-rec.Billed.Uncached, t.Write5m-rec.Billed.Write5m, t.Write1h-rec.Billed.Write1h
		t.Read, t.Output = t.Read-rec.Billed.Read, t.Output-rec.Billed.Output
		turn.Cost, turn.USD = turn.Cost-rec.Cost, turn.USD-rec.USD
		a.sink.Put(rec)
	}
}
