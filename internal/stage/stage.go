// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package stage has the names and the modes of the pipeline's stages.
package stage

import (
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// The names of the stages in configurations, edit ledgers and records.
const (
	Admission   = "admission"
	Thinking    = "strip_thinking"
	Narration   = "strip_narration"
	ToolResults = "compact_tool_results"
	Prune       = "prune"
	Replaced    = "fold_replaced"
	Inputs      = "fold_inputs"
	Compress    = "compress"
	Clearing    = "clear"
	Restore     = "restore"
	Expand      = "expand"
	Tools       = "tools"
	Breakpoints = "breakpoints"
)

// MinGain is the minimum number of bytes that a replacement must save.
const MinGain = 64

// Mode switches a stage.
type Mode string

// The modes of a stage. The empty Mode is Auto.
const (
	// Auto lets the stage decide: it acts where the upstream's rules allow it and measurements show
	// a benefit.
	Auto Mode = "auto"
	// On enables the stage wherever the upstream's rules allow it.
	On Mode = "on"
	// Off disables the stage.
	Off Mode = "off"
)

// Fired counts the edits of one stage in one request.
type Fired struct {
	// Stage is the stage's name, as in the configuration.
	Stage string
	// Count is the number of its edits in the upstream's request, including replayed ones.
	Count int
	// Tokens is the estimated number of tokens removed, negative if the request gets longer.
	Tokens int
}

// All are the stages in their order.
var All = [...]string{
	Admission, Thinking, Narration, ToolResults, Prune, Replaced, Inputs, Compress, Clearing, Restore,
	Expand, Tools, Breakpoints,
}

// Tally sums up the edits of all stages.
type Tally struct {
	counts [len(All)]int
	tokens [len(All)]float64
}

// Add adds edits of a stage, and the tokens that they remove.
func (t *Tally) Add(name string, edits int, tokens float64) {
	if i := slices.Index(All[:], name); i >= 0 {
		t.counts[i] += edits
		t.tokens[i] += tokens
	}
}

// Edit adds the edit of a block.
func (t *Tally) Edit(e *sessioncache.Edit, b *wire.Block, c *sessioncache.Calibration) {
	n := b.Span.Len()
	if e.Op != wire.OpRemove {
		n = b.Body.Len() - len(e.Value)
	}
	t.Add(e.Stage, 1, c.PerByte(b.Kind)*float64(n))
}

// Fired returns the stages with edits.
func (t *Tally) Fired() (out []Fired) {
	for i, n := range t.counts {
		if n > 0 {
			out = append(out, Fired{All[i], n, int(t.tokens[i])})
		}
	}
	return out
}
