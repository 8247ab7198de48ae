// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"cmp"
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/admission"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
)

// Settings are the operator's options of the pipeline.

// Policy decides when the stages may edit.
type Policy string

// The policies.
const (
	// CostAware edits only for free or with a gain: blocks never forwarded before, and history with
	// a cold cache or a positive expected gain.
	CostAware Policy = "cost_aware"
	// Eager runs every stage on every request, limited by the zones only.
	Eager Policy = "eager"
	// Observe computes the edits of CostAware and sends the original.
	Observe Policy = "observe"
	// Off forwards every request unmodified and unread.
	Off Policy = "off"
)

// Options configure the pipeline. The zero value is the default.
type Options struct {
	// Policy decides when edits are made: cost_aware, eager, observe or off.
	// Default: cost_aware.
	Policy Policy `json:"policy,omitempty"`
	// Holdout is the share of sessions that go through the policy observe and without pings, as a
	// control group for the report. A keyed hash chooses them, the same on all nodes and after a
	// restart. A conversation with edits already in force keeps them. Range: 0 to 0.5. Default: 0.
	Holdout float64 `json:"holdout,omitempty"`
	// Zones divide a conversation into a frozen head, a middle and a hot tail.
	Zones Zones `json:"zones,omitzero"`
	// Admission shortens tool results before they are first sent.
	Admission admission.Options `json:"admission,omitzero"`
	// StripThinking removes the thinking of finished turns.
	StripThinking StripThinking `json:"strip_thinking,omitzero"`
	// CompactToolResults shortens long tool results of the middle zone, under the policy eager.
	CompactToolResults CompactToolResults `json:"compact_tool_results,omitzero"`
	// StripNarration removes filler sentences of the assistant in the middle zone.
	StripNarration StripNarration `json:"strip_narration,omitzero"`
	// Prune replaces unneeded tool results by stubs.
	Prune Prune `json:"prune,omitzero"`
	// Breakpoints sets cache markers at the ends of the stable parts of the prompt.
	Breakpoints Breakpoints `json:"breakpoints,omitzero"`
	// Expand lets the model restore folded text.
	Expand Expand `json:"expand,omitzero"`
	// Planner tunes the policies cost_aware and observe.
	Planner Planner `json:"planner,omitzero"`
}

// Zones divide a conversation by turns. A turn is one assistant message with the messages that
// answer it. The messages before the first assistant message belong to the first turn.
type Zones struct {
	// Frozen is the number of turns at the start that are never edited. Range: 0 to 10000. Default:
	// 2 under eager, else 0.
	Frozen *int `json:"frozen,omitempty"`
	// Hot is the number of turns at the end that are never edited. Range: 1 to 10000. Default: 4
	// under eager, else 1.
	Hot *int `json:"hot,omitempty"`
	// MinMessages is the minimum number of messages for any edit. Range: 0 to 10000. Default: 6.
	MinMessages *int `json:"min_messages,omitempty"`
}

// StripThinking configures the stage strip_thinking.
type StripThinking struct {
	// Mode is auto, on or off. Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
}

// CompactToolResults configures the stage compact_tool_results.
type CompactToolResults struct {
	// Mode is auto, on or off. Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
	// MinChars is the length in characters above which a tool result is compacted. Range: 100 to
	// 1048576. Default: 500.
	MinChars *int `json:"min_chars,omitempty"`
}

// StripNarration configures the stage strip_narration.
type StripNarration struct {
	// Mode is auto, on or off. Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
	// MaxChars is the maximum length in characters of a filler text. Range: 1 to 2000. Default: 160.
	MaxChars *int `json:"max_chars,omitempty"`
}

// Prune configures the stage prune.
type Prune struct {
	// Mode is auto, on or off. Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
	// After is K: a block is pruned after this number of turns in a row without a reference to it.
	// Range: 1 to 1000. Default: 3 under eager, else 1.
	After *int `json:"after,omitempty"`
	// Preview is the number of first lines that a stub keeps. The planner keeps none of files,
	// which their names identify. Range: 0 to 20. Default: 2 under eager, else 1.
	Preview *int `json:"preview,omitempty"`
}

// Planner configures the policies that count costs.
type Planner struct {
	// Risk is the tolerance for folding text that the agent needs again. Lower values fold less,
	// higher values save more and harm more. Range: 0 to 100. Default: 1.
	Risk *float64 `json:"risk,omitempty"`
	// FoldInputs lets the planner also fold the texts that old calls wrote into files. Default:
	// true.
	FoldInputs *bool `json:"fold_inputs,omitempty"`
	// Restore appends a folded text to the newest tool result if the conversation shows that the
	// model is about to need it. Default: true.
	Restore *bool `json:"restore,omitempty"`
	// Need estimates how likely a text is needed again, for tests of other models. Default:
	// [DefaultNeed].
	Need *NeedModel `json:"-"`
	// Harm is the price of a needed text that is folded, for measurements of other prices. Default:
	// [planner.DefaultHarm].
	Harm *planner.Harm `json:"-"`
}

// Breakpoints configures the stage breakpoints.
type Breakpoints struct {
	// Mode is auto, on or off. Auto sets markers only for upstreams with caches that need them.
	// Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
}

// maxHoldout is the largest control group.
const maxHoldout = 0.5

// WithDefaults returns the options with all defaults filled in.
func (o Options) WithDefaults() Options {
	o.Policy = cmp.Or(o.Policy, CostAware)
	o.Admission.Defaults()
	for _, m := range []*stage.Mode{
		&o.StripThinking.Mode, &o.CompactToolResults.Mode, &o.StripNarration.Mode, &o.Prune.Mode, &o.Breakpoints.Mode,
		&o.Expand.Mode,
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
		{&o.CompactToolResults.MinChars, 500},
		{&o.StripNarration.MaxChars, 160},
		{&o.Prune.After, o.eager(3, 1)},
		{&o.Prune.Preview, o.eager(2, 1)},
	} {
		*n.option = cmp.Or(*n.option, &n.value)
	}
	o.Planner.Need = cmp.Or(o.Planner.Need, DefaultNeed)
	o.Planner.Harm = cmp.Or(o.Planner.Harm, &planner.DefaultHarm)
	return o
}

// eager returns the default of an option that differs under eager.
func (o *Options) eager(eager, planned int) int {
	if o.Policy == Eager {
		return eager
	}
	// The planner values each block by itself, and needs less caution.
	return planned
}

// Care is the factor for the cost of a needed fold.
func (p *Planner) Care() float64 {
	if p.Risk == nil {
		return 1
	}
	return 1 / max(*p.Risk, 1e-6)
}

// Validate returns an error for the first option out of range.
func (o *Options) Validate() error {
	switch o.Policy {
	case "", CostAware, Eager, Observe, Off:
	default:
		return fmt.Errorf("policy must be one of cost_aware, eager, observe, off, got %q", o.Policy)
	}
	if !(o.Holdout >= 0 && o.Holdout <= maxHoldout) {
		return fmt.Errorf("holdout must be between 0 and 0.5, got %v", o.Holdout)
	}
	switch o.Admission.Mode {
	case "", stage.On, stage.Off:
	default:
		return fmt.Errorf("admission must be on or off, got %q", o.Admission.Mode)
	}
	for name, m := range map[string]stage.Mode{
		"strip_thinking": o.StripThinking.Mode, "compact_tool_results": o.CompactToolResults.Mode,
		"strip_narration": o.StripNarration.Mode, "prune": o.Prune.Mode, "breakpoints": o.Breakpoints.Mode,
		"expand": o.Expand.Mode,
	} {
		switch m {
		case "", stage.Auto, stage.On, stage.Off:
		default:
			return fmt.Errorf("%s must be one of auto, on, off, got %q", name, m)
		}
	}
	switch o.Expand.Usage {
	case "", Summed, Last:
	default:
		return fmt.Errorf("expand: usage must be summed or last, got %q", o.Expand.Usage)
	}
	for _, name := range o.Expand.Names {
		if name == "" || len(name) > 128 {
			return fmt.Errorf("expand: names: %q is no name of a tool", name)
		}
	}
	if r := o.Planner.Risk; r != nil && !(*r >= 0 && *r <= 100) {
		return fmt.Errorf("planner: risk must be between 0 and 100, got %v", *r)
	}
	for _, r := range []struct {
		name     string
		value    *int
		min, max int
	}{
		{"zones: frozen", o.Zones.Frozen, 0, 10000},
		{"zones: hot", o.Zones.Hot, 1, 10000},
		{"zones: min_messages", o.Zones.MinMessages, 0, 10000},
		{"compact_tool_results: min_chars", o.CompactToolResults.MinChars, 100, 1 << 20},
		{"strip_narration: max_chars", o.StripNarration.MaxChars, 1, 2000},
		{"prune: after", o.Prune.After, 1, 1000},
		{"prune: preview", o.Prune.Preview, 0, 20},
	} {
		if r.value != nil && (*r.value < r.min || *r.value > r.max) {
			return fmt.Errorf("%s must be between %d and %d, got %d", r.name, r.min, r.max, *r.value)
		}
	}
	return nil
}

// Expand configures the tool with which the model restores folded text.
type Expand struct {
	// Mode is auto, on or off. On declares the tool in every conversation with tools in its first
	// request. Auto declares it only for coding agents, with at least 8,000 bytes of tools and
	// system prompt, and an upstream with a price for cached tokens. Other conversations are hardly
	// folded, so the declaration would cost more than it saves. Default: auto.
	Mode stage.Mode `json:"mode,omitempty"`
	// Names are further names of the tool that a model may call. If the client itself offers a tool
	// with one of these names, its calls are answered and no tool is declared. Default:
	// cachelane:expand, mcp__cachelane__expand.
	Names []string `json:"names,omitempty"`
	// Usage is the usage reported to the client for a turn with several responses. With summed it
	// is their sum, and usage.iterations lists each of them. With last it is the prompt of the last
	// response and the output of all. Choose last for clients that take the usage for the length of
	// their context and do not know iterations: the sum makes them summarize too early. The audit
	// records the billed usage in either case. Default: summed.
	Usage Usage `json:"usage,omitempty"`
}

// Usage selects the usage reported to a client.
type Usage string

// The values of Usage. The empty Usage is Summed.
const (
	Summed Usage = "summed"
	Last   Usage = "last"
)

var defaultExpandNames = []string{"cachelane:expand", "mcp__cachelane__expand"}

// Known returns the further names of the tool.
func (e *Expand) Known() []string {
	if e.Names == nil {
		return defaultExpandNames
	}
	return e.Names
}
