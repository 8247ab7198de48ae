// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"maps"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// Result is what one conversation, or all of them, came to under one profile
// and one policy. Costs are in units of one uncached input token and count the
// prompts alone: answers are the same with and without the handler.
type Result struct {
	// Conversation is the name of the conversation, "total" for all of them.
	Conversation string `json:"conversation"`
	// Agent is the program that held it.
	Agent string `json:"agent,omitempty"`
	// Profile and Policy are what it was replayed under.
	Profile string `json:"profile"`
	// Policy: see Profile.
	Policy pipeline.Policy `json:"policy"`
	// Calls is the number of requests.
	Calls int `json:"calls"`

	// BaseCost and Cost are the costs of the client's own bytes and of what
	// the handler sent, of requests that the provider does not refuse in the former.
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

	// Changed counts the requests that did not reach the upstream in the
	// client's own bytes.
	Changed int `json:"changed"`
	// Rejected counts the requests that the client saw refused and that its own
	// bytes would not have been, BaseRejected those that are refused in these.
	Rejected int `json:"rejected"`
	// BaseRejected: see Rejected.
	BaseRejected int `json:"base_rejected"`
	// Refusals are the upstream's reasons, with counts, those included after
	// which the original was sent.
	Refusals map[string]int `json:"refusals,omitempty"`
	// FailedOpen counts the requests that the handler gave up on and forwarded
	// untouched.
	FailedOpen int `json:"failed_open"`
	// Continued counts the requests that held no more than what was new, Replayed those
	// of them that the client had to send again, whole.
	Continued int `json:"continued,omitempty"`
	// Replayed: see Continued.
	Replayed int `json:"replayed,omitempty"`
	// Held counts requests to an upstream that holds the conversation, by what was sent:
	// delta, or the cause why it was the whole. Whole and Wire are the bytes of their
	// bodies, as they were and as they went over the wire, by the handler's own account.
	Held map[string]int `json:"held,omitempty"`
	// Whole: see Held.
	Whole int64 `json:"whole_bytes,omitempty"`
	// Wire: see Held.
	Wire int64 `json:"wire_bytes,omitempty"`
	// Resent counts the requests that were sent a second time.
	Resent int `json:"resent"`
	// Expanded counts the calls by which an expanding model got folded text back.
	Expanded int `json:"expanded,omitempty"`
	// Fired counts what the stages did, summed over the requests.
	Fired map[string]int `json:"fired,omitempty"`

	// Pings is the number of requests that only kept a cache alive, PingCost
	// what they cost, which is part of Cost, and PingSaved what the requests
	// after them did not pay for them, by the handler's own account.
	Pings int `json:"pings,omitempty"`
	// PingCost: see Pings.
	PingCost float64 `json:"ping_cost,omitempty"`
	// PingSaved: see Pings.
	PingSaved float64 `json:"ping_saved,omitempty"`
	// TailPings and TailCost are those after the last request. What a person
	// did then is not recorded, so they are not part of Cost: they are what is
	// lost if nobody ever came back.
	TailPings int `json:"tail_pings,omitempty"`
	// TailCost: see TailPings.
	TailCost float64 `json:"tail_cost,omitempty"`
	// PingList names each ping.
	PingList []Ping `json:"ping_list,omitempty"`

	// Background is what folding while nobody waits came to. It is no part of
	// Cost.
	Background Background `json:"background,omitzero"`

	// Words is what words that were left out come to.
	Words Words `json:"words,omitzero"`

	// Edits counts the recorded edits of files that quote a line of 25
	// characters or more; Harmed those of them that quote text which the
	// client's request held and the upstream was not shown.
	Edits int `json:"edits"`
	// Harmed: see Edits.
	Harmed int `json:"harmed"`
}

// CostRatio is the cost as a multiple of what the client's own bytes cost.
func (r *Result) CostRatio() float64 { return Ratio(r.Cost, r.BaseCost) }

// TokenRatio is the same in prompt tokens.
func (r *Result) TokenRatio() float64 {
	return Ratio(float64(r.Sent.Prompt()), float64(r.Base.Prompt()))
}

// Harm is the share of edits that were harmed.
func (r *Result) Harm() float64 {
	if r.Edits == 0 {
		return 0
	}
	return float64(r.Harmed) / float64(r.Edits)
}

// Violations names what must never happen: a refused request, one that the
// handler gave up on, and under the policies off and observe a changed one.
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

// Add sums results. The longest prompt is the longest of any.
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
	r.Held, r.Whole, r.Wire = sum(r.Held, o.Held), r.Whole+o.Whole, r.Wire+o.Wire
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

// Ratio is a as a multiple of b, 1 where b is nothing.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 1
	}
	return a / b
}
