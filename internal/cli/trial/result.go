// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"maps"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// Result is the result of one conversation, or of all, under one profile and one policy. Costs are
// in units of one uncached input token, for prompts only: answers cost the same with and without
// the handler.
type Result struct {
	// Conversation is the name of the conversation, "total" for all of them.
	Conversation string `json:"conversation"`
	// Agent is the program of the conversation.
	Agent string `json:"agent,omitempty"`
	// Profile and Policy are the conditions of the replay.
	Profile string `json:"profile"`
	// Policy: see Profile.
	Policy pipeline.Policy `json:"policy"`
	// Calls is the number of requests.
	Calls int `json:"calls"`

	// BaseCost and Cost are the costs of the client's own bytes and of the requests as sent. Both
	// leave out requests that the provider refuses in the client's own bytes.
	BaseCost float64 `json:"base_cost"`
	// Cost: see BaseCost.
	Cost float64 `json:"cost"`
	// Base and Sent are the same in prompt tokens by bucket.
	Base wire.Usage `json:"base"`
	// Sent: see Base.
	Sent wire.Usage `json:"sent"`
	// BaseMaxPrompt and MaxPrompt are the longest prompts, in tokens.
	BaseMaxPrompt int64 `json:"base_max_prompt"`
	// MaxPrompt: see BaseMaxPrompt.
	MaxPrompt int64 `json:"max_prompt"`

	// Changed counts the requests that did not reach the upstream in the client's own bytes.
	Changed int `json:"changed"`
	// Rejected counts the requests that were refused, but not in the client's own bytes.
	// BaseRejected counts those refused in the client's own bytes.
	Rejected int `json:"rejected"`
	// BaseRejected: see Rejected.
	BaseRejected int `json:"base_rejected"`
	// Refusals counts the upstream's reasons, including refusals after which the original was sent.
	Refusals map[string]int `json:"refusals,omitempty"`
	// FailedOpen counts the requests that the handler forwarded unmodified after a failure.
	FailedOpen int `json:"failed_open"`
	// Continued counts the requests with new messages only, Replayed those that the client had to
	// send again as a whole.
	Continued int `json:"continued,omitempty"`
	// Replayed: see Continued.
	Replayed int `json:"replayed,omitempty"`
	// Retained counts the requests to an upstream that retains the conversation: delta, or the cause of
	// a whole request. Whole and Wire are the bytes of their bodies, complete and as sent, from the
	// handler's header.
	Retained map[string]int `json:"held,omitempty"`
	// Whole: see Retained.
	Whole int64 `json:"whole_bytes,omitempty"`
	// Wire: see Retained.
	Wire int64 `json:"wire_bytes,omitempty"`
	// Resent counts the requests that were sent twice.
	Resent int `json:"resent"`
	// Expanded counts the restores of an expanding model.
	Expanded int `json:"expanded,omitempty"`
	// Fired counts the stages' edits, summed over the requests.
	Fired map[string]int `json:"fired,omitempty"`

	// Pings is the number of pings, PingCost their cost, which is part of Cost, and PingSaved the
	// cost that later requests avoided, by the handler's account.
	Pings int `json:"pings,omitempty"`
	// PingCost: see Pings.
	PingCost float64 `json:"ping_cost,omitempty"`
	// PingSaved: see Pings.
	PingSaved float64 `json:"ping_saved,omitempty"`
	// TailPings and TailCost are the pings after the last request. They are not part of Cost,
	// because the recording ends there: they are lost if the user never returned.
	TailPings int `json:"tail_pings,omitempty"`
	// TailCost: see TailPings.
	TailCost float64 `json:"tail_cost,omitempty"`
	// PingList lists all pings.
	PingList []Ping `json:"ping_list,omitempty"`

	// Background is the result of idle folding. It is not part of Cost.
	Background Background `json:"background,omitzero"`

	// Words is the result of compression.
	Words Words `json:"words,omitzero"`

	// Edits counts the recorded edits of files that quote a line of at least 25 characters. Harmed
	// counts those that quote text of the client's request that the upstream was not shown.
	Edits int `json:"edits"`
	// Harmed: see Edits.
	Harmed int `json:"harmed"`
}

// CostRatio returns the cost as a multiple of the cost of the client's own bytes.
func (r *Result) CostRatio() float64 { return Ratio(r.Cost, r.BaseCost) }

// TokenRatio returns the same in prompt tokens.
func (r *Result) TokenRatio() float64 {
	return Ratio(float64(r.Sent.Prompt()), float64(r.Base.Prompt()))
}

// Harm returns the share of harmed edits.
func (r *Result) Harm() float64 {
	if r.Edits == 0 {
		return 0
	}
	return float64(r.Harmed) / float64(r.Edits)
}

// Violations lists the kinds of violations: a refused request, a request that failed open, and
// under the policies off and observe a changed request.
func (r *Result) Violations() []string {
	var out []string
	if r.Rejected > 0 {
		out = append(out, "rejected")
	}
	if r.FailedOpen > 0 {
		out = append(out, "failed open")
	}
	if (r.Policy == pipeline.Off || r.Policy == pipeline.Observe) && r.Changed > 0 {
		out = append(out, "changed")
	}
	return out
}

func (r *Result) refuse(e *pricing.APIError) {
	if r.Refusals == nil {
		r.Refusals = map[string]int{}
	}
	r.Refusals[e.Message]++
}

// Add sums results. The longest prompt is the maximum.
func (r *Result) Add(o *Result) {
	r.Calls += o.Calls
	r.BaseCost += o.BaseCost
	r.Cost += o.Cost
	r.Base, r.Sent = r.Base.Add(o.Base), r.Sent.Add(o.Sent)
	r.BaseMaxPrompt, r.MaxPrompt = max(r.BaseMaxPrompt, o.BaseMaxPrompt), max(r.MaxPrompt, o.MaxPrompt)
	r.Changed += o.Changed
	r.Rejected += o.Rejected
	r.BaseRejected += o.BaseRejected
	r.FailedOpen += o.FailedOpen
	r.Resent += o.Resent
	r.Continued += o.Continued
	r.Replayed += o.Replayed
	r.Expanded += o.Expanded
	r.Pings += o.Pings
	r.PingCost += o.PingCost
	r.PingSaved += o.PingSaved
	r.TailPings += o.TailPings
	r.TailCost += o.TailCost
	r.Background.add(&o.Background)
	r.Words.add(&o.Words)
	r.Edits += o.Edits
	r.Harmed += o.Harmed
	r.Retained, r.Whole, r.Wire = sum(r.Retained, o.Retained), r.Whole+o.Whole, r.Wire+o.Wire
	r.Refusals, r.Fired = sum(r.Refusals, o.Refusals), sum(r.Fired, o.Fired)
}

func sum(a, b map[string]int) map[string]int {
	if len(b) == 0 {
		return a
	}
	if a = maps.Clone(a); a == nil {
		a = map[string]int{}
	}
	for k, n := range b {
		a[k] += n
	}
	return a
}

// Ratio returns a/b, and 1 if b is 0.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 1
	}
	return a / b
}
