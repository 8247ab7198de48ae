// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package stage names the stages of the pipeline and the modes that they have.
package stage

// The names of the stages, as they stand in the configuration, the ledger of a
// conversation and the records.
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
	GiveBack    = "give_back"
	Expand      = "expand"
	Tools       = "tools"
	Breakpoints = "breakpoints"
)

// MinGain is the number of bytes that what stands in for a text must save at least.
const MinGain = 64
