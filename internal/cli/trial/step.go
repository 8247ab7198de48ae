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

// Step is one request of a conversation and its result under one policy. Sizes are tokens of the
// simulated provider, costs as in [Result].
type Step struct {
	// At is the time since the first request of the conversation, and Pause the time since the
	// previous request, in seconds. Cache lifetimes count from request to request.
	At float64 `json:"at"`
	// Pause: see At.
	Pause float64 `json:"pause"`
	// Prompt reports that the last message is a user's prompt, not a tool result.
	Prompt bool `json:"prompt"`
	// Continued reports that the client's request extends the previous one.
	Continued bool `json:"continued"`
	// Base and Sent are the bills of the client's own bytes and of the request as sent, by bucket.
	Base wire.Usage `json:"base"`
	// Sent: see Base.
	Sent wire.Usage `json:"sent"`
	// BaseCost and Cost are their costs.
	BaseCost float64 `json:"base_cost"`
	// Cost: see BaseCost.
	Cost float64 `json:"cost"`
	// Net is the saving up to and including this request, without refused ones.
	Net float64 `json:"net"`
	// Refused reports that the client got a refusal.
	Refused bool `json:"refused,omitempty"`
	// Decision is the handler's decision about editing history, nil without one.
	Decision *planner.Decision `json:"decision,omitempty"`
	// Fired counts the stages' edits, those of earlier requests included. Folded counts the edits
	// that are new in this request.
	Fired map[string]int `json:"fired,omitempty"`
	// Folded: see Fired.
	Folded map[string]int `json:"folded,omitempty"`
	// Removed is the number of tokens that the new edits remove from the prompt.
	Removed int64 `json:"removed,omitempty"`
	// Earned is the saving of the new edits until the end, less the cost of rewriting the cache for them.
	Earned float64 `json:"earned,omitempty"`
	// Edits counts the edits of files in the answer, Harmed the harmed ones, as in [Result].
	Edits int `json:"edits,omitempty"`
	// Harmed: see Edits.
	Harmed int `json:"harmed,omitempty"`

	shorter int64 // tokens that the prompt is shorter by
}

const (
	headerDecision = "X-Llm-Cache-Decision"
	// markers is the stage that places cache markers, which are no edits of content.
	markers = "breakpoints"
)

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

// follow sets the fields that depend on the previous step, nil for the first one.
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
	if s.Refused { // no usage is known
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

// saving returns the saving against the client's own bytes, 0 if either request was refused.
func (s *Step) saving() float64 {
	if s.Refused || s.BaseCost == 0 {
		return 0
	}
	return s.BaseCost - s.Cost
}

func (s *Step) epoch() bool {
	return s.Decision != nil && s.Decision.Epoch != planner.NoEpoch && s.Decision.Folded > 0
}

// parseDecision parses a decision from the handler's header. It returns false without an epoch.
func parseDecision(s string) (d planner.Decision, ok bool) {
	for s != "" {
		var name, value string
		// Members are name=value, separated by semicolons, with texts in quotes. Unknown ones are skipped.
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

func number(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return f
}

// Prompted reports whether the last message of a request is a user's prompt.
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
