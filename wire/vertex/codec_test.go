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

package vertex

import "testing"

func TestAddress(t *testing.T) {
	const models = "/v1/projects/p/locations/us-east5/publishers/anthropic/models/"
	for path, want := range map[string]struct {
		model        string
		streams, yes bool
	}{
		models + "claude-sonnet-4-5@20250929:rawPredict":   {"claude-sonnet-4-5@20250929", false, true},
		models + "claude-opus-4-6:streamRawPredict":        {"claude-opus-4-6", true, true},
		models + "count-tokens:rawPredict":                 {},
		models + ":rawPredict":                             {},
		models + "claude-opus-4-6:predict":                 {},
		"/v1/publishers/meta/models/llama-4:rawPredict":    {},
		"/publishers/anthropic/models/x/claude:rawPredict": {},
		"/v1beta/models/gemini-3.1-pro:generateContent":    {},
	} {
		base, model, streams, ok := Codec{}.Address(path)
		if ok != want.yes || model != want.model || streams != want.streams || ok && base != models || (Codec{}).Match(path) != want.yes {
			t.Errorf("%s: %q, %q, %t, %t", path, base, model, streams, ok)
		}
	}
	if c := (Codec{}); !c.MatchCount(models+"count-tokens:rawPredict") || c.MatchCount(models+"claude-opus-4-6:rawPredict") {
		t.Error("requests for a count of tokens are not told apart")
	}
}
