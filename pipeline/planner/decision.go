// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "strconv"

// Epoch is a moment at which blocks that were forwarded before may be edited.
type Epoch string

// The epochs.
const (
	// NoEpoch: what was forwarded stays as it is.
	NoEpoch Epoch = "none"
	// Cold: the upstream's cache has expired for certain.
	Cold Epoch = "cold"
	// Diverged: the client itself wrote history anew; only what stands behind
	// the first difference is edited.
	Diverged Epoch = "diverged"
	// ModelChanged: another model has its own cache.
	ModelChanged Epoch = "model"
	// WindowNear: the prompt comes near the model's context window.
	WindowNear Epoch = "window"
	// TaskBoundary: a person's prompt, and the expected net gain is positive.
	TaskBoundary Epoch = "boundary"
	// InLoop: within a run of tool calls, and what is folded is hardly needed.
	InLoop Epoch = "loop"
)

// Decision says why a request was edited or left alone. Sizes are estimated
// tokens; the gain is in units of one uncached input token.
type Decision struct {
	// Epoch is the moment, NoEpoch where history was left alone.
	Epoch Epoch `json:"epoch"`
	// Reason says in a few words why history was left alone, empty if not.
	Reason string `json:"reason,omitempty"`
	// Candidates is the number of blocks that could have been folded, Folded
	// the number of those that were, in this request.
	Candidates int `json:"candidates"`
	// Folded: see Candidates.
	Folded int `json:"folded"`
	// Removed is what the folded blocks took (ΔT), Rewritten what stands
	// behind the first of them and has to be written to the cache again (S).
	Removed int `json:"removed"`
	// Rewritten: see Removed.
	Rewritten int `json:"rewritten"`
	// Further is the number of further requests expected (R).
	Further float64 `json:"further"`
	// Gain is what folding is expected to earn, net of what is written again
	// and of text that has to be fetched again.
	Gain float64 `json:"gain"`
}

// String renders the decision as it stands in the X-Llm-Cache-Decision header.
func (d *Decision) String() string { return d.Update("") }

// Update returns what String does, in the memory of what it was before if that is the same.
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
