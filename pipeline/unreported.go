// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// complete returns the usage of each call in a turn, with estimates for unreported usage, and
// whether there are any estimates. The session is locked.
func (x *Exchange) complete(t *wire.Turn) (calls []wire.Usage, estimated bool) {
	calls = slices.Clone(x.calls(t))
	output, last := x.outputOf(t), len(calls)-1
	if t.Usage.Prompt() == 0 {
		if t.Failed() && output == 0 {
			return calls, false // the upstream refused the request in the form of a response
		}
		u := x.expected()
		u.Output, u.Reported = t.Usage.Output, t.Usage.Reported
		calls, last, estimated = []wire.Usage{u}, 0, true
	}
	// The last call may have been cut off before its usage arrived, after earlier calls reported
	// theirs.
	for i := range calls {
		if calls[i].Prompt() == 0 && len(x.Interceptor.calls) > 0 {
			u := x.expected()
			u.Output = calls[i].Output
			calls[i], estimated = u, true
		}
	}
	// A stream that was cut off has reported at most its first count: Anthropic's message_start
	// says about 1, and only message_delta the whole.
	if told := sum(calls).Output; (!t.Done || told == 0) && output > told {
		calls[last].Output += output - told
		estimated = true
	}
	return calls, estimated
}

// outputOf estimates the output tokens that the client received.
func (x *Exchange) outputOf(t *wire.Turn) int64 {
	var sizes sessioncache.Sizes
	sizes.Add(wire.KindText, len(t.Text)+len(t.Thinking))
	for i := range t.Calls {
		sizes.Add(wire.KindToolUse, len(t.Calls[i].Name)+len(t.Calls[i].Arguments))
	}
	return int64(x.req.session.Calibration.Tokens(&sizes))
}

// expected returns the expected usage of the sent prompt. The session is locked.
func (x *Exchange) expected() wire.Usage {
	prompt := int64(x.Prompt.SentTokens)
	if x.Policy == Observe {
		prompt = int64(x.Prompt.OriginalTokens)
	}
	left, cause := x.standing.before.left, x.standing.before.cause
	if prev := x.standing.match.Lineage; x.standing.lineage == nil && prev != nil {
		left, cause = x.left(prev)
	}
	var u wire.Usage
	// The last request's cache entry counts as read, unless a reason speaks against it. The rest
	// counts as written if the provider writes this prompt to its cache.
	if cause == BreakUnknown && left >= int64(x.req.rules.MinTokens) {
		u.Read = min(left, prompt)
	}
	switch rest := prompt - u.Read; x.writes() {
	case writesNothing:
		u.Uncached = rest
	case writesShort:
		u.Write5m = rest
	case writesLong:
		u.Write1h = rest
	}
	return u
}

// The price of the part of a prompt that is written to the cache.
const (
	writesNothing = iota
	writesShort   // for the short lifetime
	writesLong    // for the long lifetime
)

// writes returns the price class of the uncached part of the prompt, by the provider's rules and
// the request's markers.
func (x *Exchange) writes() int {
	v := x.req.View
	switch x.req.rules.Regime {
	case pricing.Breakpoints:
		return writesShort
	case pricing.Markers:
	default:
		return writesNothing
	}
	marks := [][]byte{v.Bytes(v.Caching.AutoMarker)}
	for i := range v.Blocks {
		marks = append(marks, v.Bytes(v.Blocks[i].Marker))
	}
	found := writesNothing
	for _, m := range marks {
		switch {
		case x.req.marking.long && len(m) > 0, bytes.Contains(m, []byte(`"1h"`)):
			return writesLong
		case len(m) > 0:
			found = writesShort
		}
	}
	if x.Prompt.Markers > 0 || x.req.marking.translated {
		return writesShort
	}
	return found
}
