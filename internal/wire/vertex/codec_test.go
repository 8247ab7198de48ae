// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

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
		if ok != want.yes || model != want.model || streams != want.streams || ok && base != models ||
			(Codec{}).Match(path) != want.yes {
			t.Errorf("%s: %q, %q, %t, %t", path, base, model, streams, ok)
		}
	}
	if c := (Codec{}); !c.MatchCount(models+"count-tokens:rawPredict") ||
		c.MatchCount(models+"claude-opus-4-6:rawPredict") {
		t.Error("requests for a count of tokens are not told apart")
	}
}
