// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
)

// Step is one request of a conversation and what became of it under one
// policy. Sizes are tokens of the simulated provider, costs as in [Result].
type Step struct {
	// At is the time from the first request of the conversation to this one,
	// and Pause that from the request before it, in seconds: lifetimes of
	// caches count from request to request.
	At float64 `json:"at"`
	// Pause: see At.
	Pause float64 `json:"pause"`
	// Prompt tells that a person's prompt is the last message, not the result
	// of a tool.
	Prompt bool `json:"prompt"`
	// Continued tells that the client's request holds all of the one before it.
	Continued bool `json:"continued"`
	// Base and Sent are what the client's own bytes and what was sent in their
	// place were billed, by bucket.
	Base wire.Usage `json:"base"`
	// Sent: see Base.
	Sent wire.Usage `json:"sent"`
	// BaseCost and Cost are the costs of the two.
	BaseCost float64 `json:"base_cost"`
	// Cost: see BaseCost.
	Cost float64 `json:"cost"`
	// Net is what was saved up to and with this request, refused ones left out.
	Net float64 `json:"net"`
	// Refused tells that the client saw the request refused.
	Refused bool `json:"refused,omitempty"`
	// Decision is what the handler said about editing history, nil where it
	// said nothing.
	Decision *planner.Decision `json:"decision,omitempty"`
	// Fired counts what the stages did, edits of earlier requests included;
	// Folded counts the edits that are new in this request.
	Fired map[string]int `json:"fired,omitempty"`
	// Folded: see Fired.
	Folded map[string]int `json:"folded,omitempty"`
	// Removed is the number of tokens by which the new edits shorten the
	// prompt.
	Removed int64 `json:"removed,omitempty"`
	// Earned is what the new edits earned from here to the end, less what had
	// to be written again for them.
	Earned float64 `json:"earned,omitempty"`
	// Edits counts the edits of files in the answer, Harmed those of them that
	// quote text which was not shown, as in [Result].
	Edits int `json:"edits,omitempty"`
	// Harmed: see Edits.
	Harmed int `json:"harmed,omitempty"`

	shorter int64 // tokens by which the prompt is shorter
}

const (
	headerDecision = "X-Llm-Cache-Decision"
	// markers is the stage that places markers, which are no edits of content.
	markers = "breakpoints"
)

// step describes a request that is over.
func (a *arm) step(c *request, w *sink, fired map[string]int, harmed int) *Step {
	delete(fired, markers)
	s := &Step{
		Prompt: Prompted(c.view), Continued: c.continued,
		Base: c.base, BaseCost: c.baseCost,
		Sent: a.usage, Cost: a.profile.Rules().Cost(a.usage),
		Refused: a.refused != nil || w.status != http.StatusOK,
		Fired:   fired, Edits: len(c.edits), Harmed: harmed,
	}
	if d, ok := parseDecision(w.header.Get(headerDecision)); ok {
		s.Decision = &d
	}
	return s
}

// follow fills in what depends on the step before, nil for the first one.
func (s *Step) follow(before *Step, at time.Duration) {
	s.At = at.Seconds()
	s.Net = s.saving()
	s.shorter = s.Base.Prompt() - s.Sent.Prompt()
	fired, shorter := map[string]int(nil), int64(0)
	if before != nil {
		s.Pause = s.At - before.At
		s.Net += before.Net
		if s.Continued {
			fired, shorter = before.Fired, before.shorter
		}
	}
	if s.Refused { // nothing is known of it
		s.shorter = shorter
	}
	for stage, n := range s.Fired {
		if n -= fired[stage]; n > 0 {
			if s.Folded == nil {
				s.Folded = map[string]int{}
			}
			s.Folded[stage] = n
		}
	}
	if len(s.Folded) > 0 {
		s.Removed = max(0, s.shorter-shorter)
	}
}

// saving is what the request cost less than the client's own bytes. One that was
// refused, as it is or in these, saves nothing.
func (s *Step) saving() float64 {
	if s.Refused || s.BaseCost == 0 {
		return 0
	}
	return s.BaseCost - s.Cost
}

// epoch reports whether history was edited in this request.
func (s *Step) epoch() bool {
	return s.Decision != nil && s.Decision.Epoch != planner.NoEpoch && s.Decision.Folded > 0
}

// parseDecision reads a decision as the handler writes it into its header:
// members name=value with semicolons between, texts in quotes. Members that it
// does not know are left out. It reports false where no epoch is named.
func parseDecision(s string) (d planner.Decision, ok bool) {
	for s != "" {
		var name, value string
		name, s, _ = strings.Cut(s, "=")
		if quoted, err := strconv.QuotedPrefix(s); err == nil {
			s = s[len(quoted):]
			value, _ = strconv.Unquote(quoted) // it is a quoted prefix
			_, s, _ = strings.Cut(s, ";")
		} else {
			value, s, _ = strings.Cut(s, ";")
		}
		value = strings.TrimSpace(value)
		whole := func() int { return int(number(value)) }
		switch strings.TrimSpace(name) {
		case "epoch":
			d.Epoch, ok = planner.Epoch(value), value != ""
		case "reason":
			d.Reason = value
		case "candidates":
			d.Candidates = whole()
		case "folded":
			d.Folded = whole()
		case "removed":
			d.Removed = whole()
		case "rewritten":
			d.Rewritten = whole()
		case "further":
			d.Further = number(value)
		case "gain":
			d.Gain = number(value)
		}
	}
	return d, ok
}

// number reads a number, 0 where there is none.
func number(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return f
}

// Prompted reports whether the last message of a request is a person's.
func Prompted(v *wire.View) bool {
	if len(v.Messages) == 0 {
		return false
	}
	m := &v.Messages[len(v.Messages)-1]
	for i := m.First; i < m.End; i++ {
		if v.Blocks[i].Kind == wire.KindToolResult {
			return false
		}
	}
	return m.Role == wire.RoleUser
}
