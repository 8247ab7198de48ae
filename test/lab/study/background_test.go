// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// The text reports the result of folding in pauses, and of long conversations separately.
func TestBackgroundText(t *testing.T) {
	out, err := studied("-profile", "kv", "-background", testkit.ReadRecording(t, 300))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`(?m)^while nobody waited: [1-9]\d* folds planned, [1-9]\d* held, \d+ broken off; [\d.]+k read, [\d.]+k in vain$`,
		`(?m)^over 60 requests: 70 requests, prompt tokens -\d+\.\d %, read in front of people [\d.k→]+ \([-+]\d+\.\d %\),` +
			` harm 0\.00 % of 0$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no line %s in\n%s", want, out)
		}
	}
	if out, err := studied("-profile", "kv", testkit.ReadRecording(t, 300)); err != nil ||
		strings.Contains(out, "while nobody waited") {
		t.Errorf("%v: without -background\n%s", err, out)
	}
}
