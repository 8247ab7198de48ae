// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"fmt"
	"time"
)

// Override replaces single rules by what an operator knows better. Absent
// fields leave the rule as it is.
type Override struct {
	// Regime replaces [Rules.Regime].
	Regime *Regime `json:"regime,omitempty"`
	// Input and Output replace the prices in US dollars for a million tokens.
	// They also take the place of a second price tier.
	Input *float64 `json:"input,omitempty"`
	// Output: see Input.
	Output *float64 `json:"output,omitempty"`
	// Write replaces [Rules.Write], a multiple such as 1.25.
	Write *float64 `json:"write,omitempty"`
	// Write1h replaces [Rules.Write1h], a multiple such as 2.
	Write1h *float64 `json:"write_1h,omitempty"`
	// Read replaces [Rules.Read], a multiple such as 0.1.
	Read *float64 `json:"read,omitempty"`
	// TTL replaces [Rules.TTL].
	TTL *time.Duration `json:"ttl,omitempty"`
	// LongTTL replaces [Rules.LongTTL].
	LongTTL *time.Duration `json:"long_ttl,omitempty"`
	// MinTokens replaces [Rules.MinTokens].
	MinTokens *int `json:"min_tokens,omitempty"`
	// Markers replaces [Rules.Markers].
	Markers *int `json:"markers,omitempty"`
	// LookBack replaces [Rules.LookBack].
	LookBack *int `json:"look_back,omitempty"`
	// CollapseRuns replaces [Rules.CollapseRuns].
	CollapseRuns *bool `json:"collapse_runs,omitempty"`
	// Slots replaces [Rules.Slots].
	Slots *int `json:"slots,omitempty"`
	// BindsThinking replaces [Rules.BindsThinking].
	BindsThinking *bool `json:"binds_thinking,omitempty"`
	// KeepsThinking replaces [Rules.KeepsThinking].
	KeepsThinking *bool `json:"keeps_thinking,omitempty"`
	// ContextWindow replaces [Rules.ContextWindow].
	ContextWindow *int `json:"context_window,omitempty"`
}

func set[T any](rule *T, value *T) {
	if value != nil {
		*rule = *value
	}
}

// With returns the rules with those of o in their places.
func (r Rules) With(o Override) Rules {
	if o.TTL != nil || o.MinTokens != nil {
		r.observed = nil
	}
	set(&r.Regime, o.Regime)
	set(&r.Write, o.Write)
	set(&r.Write1h, o.Write1h)
	set(&r.Read, o.Read)
	set(&r.TTL, o.TTL)
	set(&r.LongTTL, o.LongTTL)
	set(&r.MinTokens, o.MinTokens)
	set(&r.Markers, o.Markers)
	set(&r.LookBack, o.LookBack)
	set(&r.CollapseRuns, o.CollapseRuns)
	set(&r.Slots, o.Slots)
	set(&r.BindsThinking, o.BindsThinking)
	set(&r.KeepsThinking, o.KeepsThinking)
	set(&r.ContextWindow, o.ContextWindow)
	if o.Input != nil || o.Output != nil {
		set(&r.Input, o.Input)
		set(&r.Output, o.Output)
		r.TierAbove, r.TierInput, r.TierOutput, r.PricesOf = 0, 0, 0, ""
	}
	return r
}

// Validate returns an error that names the first rule out of its range.
func (o *Override) Validate() error {
	for _, f := range []struct {
		name  string
		value *float64
		max   float64
	}{
		{"input", o.Input, 1e4},
		{"output", o.Output, 1e4},
		{"write", o.Write, 100},
		{"write_1h", o.Write1h, 100},
		{"read", o.Read, 1},
	} {
		if f.value != nil && !(*f.value >= 0 && *f.value <= f.max) {
			return fmt.Errorf("%s: %g is not between 0 and %g", f.name, *f.value, f.max)
		}
	}
	for _, f := range []struct {
		name  string
		value *int
		max   int
	}{
		{"min_tokens", o.MinTokens, 1 << 20},
		{"markers", o.Markers, 100},
		{"look_back", o.LookBack, 1 << 20},
		{"slots", o.Slots, 1 << 16},
		{"context_window", o.ContextWindow, 1 << 30},
	} {
		if f.value != nil && (*f.value < 0 || *f.value > f.max) {
			return fmt.Errorf("%s: %d is not between 0 and %d", f.name, *f.value, f.max)
		}
	}
	for _, f := range []struct {
		name  string
		value *time.Duration
	}{{"ttl", o.TTL}, {"long_ttl", o.LongTTL}} {
		if f.value != nil && *f.value < 0 {
			return fmt.Errorf("%s: %v is negative", f.name, *f.value)
		}
	}
	return nil
}
