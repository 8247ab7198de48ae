// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "strconv"

// Epoch is a moment at which blocks forwarded before may be edited.
type Epoch string

// The epochs.
const (
	// NoEpoch: forwarded blocks stay unchanged.
	NoEpoch Epoch = "none"
	// Cold: the upstream's cache has certainly expired.
	Cold Epoch = "cold"
	// Diverged: the client rewrote its history. Only blocks after the first difference are edited.
	Diverged Epoch = "diverged"
	// ModelChanged: the new model has a cache of its own.
	ModelChanged Epoch = "model"
	// WindowNear: the prompt is close to the model's context window.
	WindowNear Epoch = "window"
	// TaskBoundary: a human prompt, with a positive expected net gain.
	TaskBoundary Epoch = "boundary"
	// InLoop: within a run of tool calls, with little need of the folded text.
	InLoop Epoch = "loop"
)

// Decision says why a request was edited or left alone. Sizes are estimated tokens; the gain is in
// uncached input tokens.
type Decision struct {
	// Epoch is the moment, NoEpoch if history was left alone.
	Epoch Epoch `json:"epoch"`
	// Reason says in a few words why history was left alone, "" if it was not.
	Reason string `json:"reason,omitempty"`
	// Candidates is the number of blocks worth folding.
	Candidates int `json:"candidates"`
	// Folded is the number of blocks folded in this request.
	Folded int `json:"folded"`
	// Removed is the number of tokens saved by the folds (ΔT).
	Removed int `json:"removed"`
	// Rewritten is the number of tokens after the first fold that must be written to the cache
	// again (S).
	Rewritten int `json:"rewritten"`
	// Further is the expected number of further requests (R).
	Further float64 `json:"further"`
	// Gain is the expected gain of the folds, net of the tokens written again and of text fetched
	// again.
	Gain float64 `json:"gain"`
}

// String formats the decision for the X-Llm-Cache-Decision header.
func (d *Decision) String() string { return d.Update("") }

// Update returns the same as String. It returns before itself if the two are equal, which saves the
// allocation.
func (d *Decision) Update(before string) string {
	var few [192]byte
	b := append(append(few[:0], "epoch="...), d.Epoch...)
	for _, n := range [...]struct {
		name  string
		value int
	}{{"; candidates=", d.Candidates}, {"; folded=", d.Folded}, {"; removed=", d.Removed}, {"; rewritten=", d.Rewritten}} {
		b = strconv.AppendInt(append(b, n.name...), int64(n.value), 10)
	}
	b = strconv.AppendFloat(append(b, "; further="...), d.Further, 'f', 0, 64)
	b = strconv.AppendFloat(append(b, "; gain="...), d.Gain, 'f', 0, 64)
	if d.Reason != "" {
		b = strconv.AppendQuote(append(b, "; reason="...), d.Reason)
	}
	if string(b) == before {
		return before
	}
	return string(b)
}
