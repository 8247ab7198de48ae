// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

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
