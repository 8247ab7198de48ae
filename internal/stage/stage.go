// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package stage has the names and the modes of the pipeline's stages.
package stage

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
	GiveBack    = "give_back"
	Expand      = "expand"
	Tools       = "tools"
	Breakpoints = "breakpoints"
)

// MinGain is the minimum number of bytes that a replacement must save.
const MinGain = 64
