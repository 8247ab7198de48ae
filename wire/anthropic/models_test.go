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

package anthropic

import "testing"

func TestClaude(t *testing.T) {
	for model, want := range map[string]claude{
		"claude-opus-4-8": {"opus", 48}, "claude-3-5-sonnet-20241022": {"sonnet", 35}, "claude-opus-4-20250514": {"opus", 40},
		"us.anthropic.claude-haiku-4-5-20251001-v1:0": {"haiku", 45}, "claude-sonnet-5": {"sonnet", 50}, "claude-fable-5-2": {"fable", 52},
		"anthropic/claude-sonnet-4.5": {"sonnet", 45}, "gpt-5": {}, "claude-": {}, "": {},
	} {
		if got := claudeOf(model); got != want {
			t.Errorf("%s: got %+v, want %+v", model, got, want)
		}
	}
}
