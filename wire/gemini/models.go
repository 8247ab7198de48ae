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

package gemini

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
)

// Signs reports whether a Gemini model wants the signatures of calls back: 3 and
// later.
func Signs(model string) bool {
	i := strings.Index(model, "gemini-")
	return i >= 0 && !strings.HasPrefix(model[i:], "gemini-1") && !strings.HasPrefix(model[i:], "gemini-2")
}

// Level returns the level of thinking that stands for an effort and that a model knows.
func Level(model, effort string) string {
	if strings.Contains(model, "flash") {
		return translate.KnownEffort(effort, "minimal", "low", "medium", "high")
	}
	return translate.KnownEffort(effort, "low", "medium", "high")
}
