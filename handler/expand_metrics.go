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

package handler

import "github.com/caddy-llm-cache/caddy-llm-cache/pipeline"

// What became of a continuation.
const (
	continuationAnswered = "answered"
	continuationFailed   = "failed"
	continuationLimit    = "limit"
)

var (
	expansions    = counterVec("expansions_total", "Folded blocks that models asked for again, by the class of the tool whose text it was and what they got: whole, part, unknown, or refused (a call whose arguments held a stub).", "class", "result")
	continuations = counterVec("continuations_total", "Answers to calls of the expand tool that the upstream was asked to go on from: answered, failed, or limit (asked too often in one turn).", "result")
)

// countExpansions counts what models asked for again. The labels are bounded: a
// tool counts under its class.
func countExpansions(all []pipeline.Expansion) {
	for _, e := range all {
		result := "whole"
		switch {
		case e.Refused:
			result = "refused"
		case e.Unknown:
			result = "unknown"
		case e.Part:
			result = "part"
		}
		expansions.WithLabelValues(e.Class.String(), result).Inc()
	}
}
