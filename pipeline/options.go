// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

// Settings holds what an operator may set of the pipeline.

import (
	"cmp"
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/admission"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
)

// Policy decides when the stages may edit.
type Policy string

// The policies.
const (
	// CostAware edits only where it is free or pays: blocks never forwarded
	// before, and history when its cache is cold or the expected gain is positive.
	CostAware Policy = "cost_aware"
	// Eager runs every stage on every request, exactly as the zones say.
	Eager Policy = "eager"
	// Observe computes what CostAware would do and sends the original.
	Observe Policy = "observe"
	// Off forwards every request untouched and unread.
	Off Policy = "off"
)

// Options configure the pipeline. The zero value is the default.
type Options struct {
	// Policy decides when edits are made: cost_aware, eager, observe or off.
	// Default: cost_aware.
	Policy Policy `json:"policy,omitempty"`
	// Zones split a conversation into a frozen head, a middle and a hot tail.
	Zones Zones `json:"zones,omitzero"`
	// Admission takes out of tool results what says nothing, when they are seen
	// for the first time.
	Admission admission.Options `json:"admission,omitzero"`
	// StripThinking removes the thinking of finished turns.
	StripThinking StripThinking `json:"strip_thinking,omitzero"`
	// CompactToolResults shortens long tool results of the middle zone, under
	// the policy eager.
	CompactToolResults CompactToolResults `json:"compact_tool_results,omitzero"`
	// StripNarration removes filler sentences of the assistant in the middle zone.
	StripNarration StripNarration `json:"strip_narration,omitzero"`
	// Prune replaces tool results that are no longer needed by stubs.
	Prune Prune `json:"prune,omitzero"`
	// Breakpoints closes the stable parts of the prompt by cache markers.
	Breakpoints Breakpoints `json:"breakpoints,omitzero"`
	// Expand lets the model get folded text back.
	Expand Expand `json:"expand,omitzero"`
	// Planner weighs what the policies cost_aware and observe do.
	Planner Planner `json:"planner,omitzero"`
}

// Zones split a conversation by turns. A turn is one assistant message and the
// messages that answer it; what stands before the first assistant message
// belongs to the first turn.
type Zones struct {
	// Frozen is the number of turns at the start that are never edited.
	// Default: 2 under eager, else 0.
	Frozen *int `json:"frozen,omitempty"`
	// Hot is the number of turns at the end that are never edited.
	// Default: 4 under eager, else 1.
	Hot *int `json:"hot,omitempty"`
	// MinMessages is the number of messages below which nothing is edited. Default: 6.
	MinMessages *int `json:"min_messages,omitempty"`
}

// StripThinking configures the stage of that name.
type StripThinking struct {
	// Mode is auto, on or off. Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
}

// CompactToolResults configures the stage of that name.
type CompactToolResults struct {
	// Mode is auto, on or off. Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
	// Over is the length in characters above which a tool result is compacted. Default: 500.
	Over *int `json:"over,omitempty"`
}

// StripNarration configures the stage of that name.
type StripNarration struct {
	// Mode is auto, on or off. Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
	// Under is the length in characters up to which a text that begins like
	// filler counts as filler. Default: 160.
	Under *int `json:"under,omitempty"`
}

// Prune configures the stage of that name.
type Prune struct {
	// Mode is auto, on or off. Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
	// After is K: the number of turns in a row that must not refer to a block
	// before it is pruned. Default: 3 under eager, else 1.
	After *int `json:"after,omitempty"`
	// Preview is the number of first lines that a stub keeps. The planner keeps
	// none of files: their names say what they are. Default: 2 under eager, else 1.
	Preview *int `json:"preview,omitempty"`
}

// Planner configures the policies that count costs.
type Planner struct {
	// Risk says how much of a chance is taken that the agent needs a folded
	// text again, 0 to 100: lower values fold less, higher values save more and
	// harm more. Default: 1.
	Risk *float64 `json:"risk,omitempty"`
	// FoldInputs lets the planner fold what old calls have written into files,
	// too. Default: true.
	FoldInputs *bool `json:"fold_inputs,omitempty"`
	// GiveBack puts a folded text behind the newest tool result, where the conversation
	// shows that the model is about to need it. Default: true.
	GiveBack *bool `json:"give_back,omitempty"`
	// Need tells how likely a text is needed again. It is for those who test other
	// models than the one that comes with the module, which is the default.
	Need *NeedModel `json:"-"`
	// Harm is the price of a folded text that is needed. It is for those who measure
	// other prices than [planner.DefaultHarm], which is the default.
	Harm *planner.Harm `json:"-"`
}

// Breakpoints configures the stage of that name.
type Breakpoints struct {
	// Mode is auto, on or off. Auto places markers only for upstreams whose
	// cache asks for them. Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
}

// WithDefaults returns the options with every default filled in.
func (o Options) WithDefaults() Options {
	o.Policy = cmp.Or(o.Policy, CostAware)
	o.Admission.Defaults()
	for _, m := range []*stage.Mode{
		&o.StripThinking.Mode, &o.CompactToolResults.Mode, &o.StripNarration.Mode, &o.Prune.Mode, &o.Breakpoints.Mode, &o.Expand.Mode,
	} {
		*m = cmp.Or(*m, stage.Auto)
	}
	for _, n := range []struct {
		option **int
		value  int
	}{
		{&o.Zones.Frozen, o.eager(2, 0)},
		{&o.Zones.Hot, o.eager(4, 1)},
		{&o.Zones.MinMessages, 6},
		{&o.CompactToolResults.Over, 500},
		{&o.StripNarration.Under, 160},
		{&o.Prune.After, o.eager(3, 1)},
		{&o.Prune.Preview, o.eager(2, 1)},
	} {
		*n.option = cmp.Or(*n.option, &n.value)
	}
	o.Planner.Need = cmp.Or(o.Planner.Need, DefaultNeed)
	o.Planner.Harm = cmp.Or(o.Planner.Harm, &planner.DefaultHarm)
	return o
}

// eager is the default of an option that the planner does not need: it looks
// at each block.
func (o *Options) eager(eager, planned int) int {
	if o.Policy == Eager {
		return eager
	}
	return planned
}

// Care is how many times its cost the need of a folded text counts.
func (p *Planner) Care() float64 {
	if p.Risk == nil {
		return 1
	}
	return 1 / max(*p.Risk, 1e-6)
}

// Validate returns an error that names the first option out of its range.
func (o *Options) Validate() error {
	switch o.Policy {
	case "", CostAware, Eager, Observe, Off:
	default:
		return fmt.Errorf("policy: %q is none of cost_aware, eager, observe, off", o.Policy)
	}
	for name, m := range map[string]stage.Mode{
		"admission": o.Admission.Mode, "strip_thinking": o.StripThinking.Mode, "compact_tool_results": o.CompactToolResults.Mode,
		"strip_narration": o.StripNarration.Mode, "prune": o.Prune.Mode, "breakpoints": o.Breakpoints.Mode, "expand": o.Expand.Mode,
	} {
		switch m {
		case "", stage.Auto, stage.On, stage.Off:
		default:
			return fmt.Errorf("%s: %q is none of auto, on, off", name, m)
		}
	}
	switch o.Expand.Usage {
	case "", Summed, Last:
	default:
		return fmt.Errorf("expand: usage: %q is neither summed nor last", o.Expand.Usage)
	}
	for _, name := range o.Expand.Names {
		if name == "" || len(name) > 128 {
			return fmt.Errorf("expand: names: %q is no name of a tool", name)
		}
	}
	if r := o.Planner.Risk; r != nil && !(*r >= 0 && *r <= 100) {
		return fmt.Errorf("planner: risk: %v is not between 0 and 100", *r)
	}
	for _, r := range []struct {
		name     string
		value    *int
		min, max int
	}{
		{"zones: frozen", o.Zones.Frozen, 0, 10000},
		{"zones: hot", o.Zones.Hot, 1, 10000},
		{"zones: min_messages", o.Zones.MinMessages, 0, 10000},
		{"compact_tool_results: over", o.CompactToolResults.Over, 100, 1 << 20},
		{"strip_narration: under", o.StripNarration.Under, 1, 2000},
		{"prune: after", o.Prune.After, 1, 1000},
		{"prune: preview", o.Prune.Preview, 0, 20},
	} {
		if r.value != nil && (*r.value < r.min || *r.value > r.max) {
			return fmt.Errorf("%s: %d is not between %d and %d", r.name, *r.value, r.min, r.max)
		}
	}
	return nil
}
