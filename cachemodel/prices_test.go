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

package cachemodel

import (
	"strings"
	"testing"
)

func TestPricesTable(t *testing.T) {
	rows, err := parsePrices(pricesText)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 30 {
		t.Fatalf("%d rows, more expected", len(rows))
	}
	last := make(map[string]price)
	for _, p := range rows {
		r := p.rules
		key := p.provider + " " + p.model
		if before, ok := last[key]; ok && !p.from.After(before.from) {
			t.Errorf("%s: row of %v stands after that of %v", key, p.from, before.from)
		}
		last[key] = p
		if r.Output < r.Input {
			t.Errorf("%s: output %g is cheaper than input %g", key, r.Output, r.Input)
		}
		if r.Read < 0.02 || r.Read > 0.5 {
			t.Errorf("%s: read multiple %g", key, r.Read)
		}
		if r.MinTokens < 512 || r.MinTokens > 4096 {
			t.Errorf("%s: minimum %d", key, r.MinTokens)
		}
		switch {
		case strings.HasPrefix(p.model, "claude-"):
			if r.Write != 1.25 || r.Write1h != 2 {
				t.Errorf("%s: write multiples %g and %g, 1.25 and 2 hold for all", key, r.Write, r.Write1h)
			}
		case r.Write != r.Write1h || r.Write != 1 && r.Write != 1.25:
			t.Errorf("%s: write multiples %g and %g", key, r.Write, r.Write1h)
		}
		if r.TierAbove > 0 && (r.TierInput <= 1 || r.TierOutput <= 1) {
			t.Errorf("%s: tier %d:%g:%g", key, r.TierAbove, r.TierInput, r.TierOutput)
		}
		if !strings.HasPrefix(r.Mark, "[") {
			t.Errorf("%s: mark %q", key, r.Mark)
		}
		if n := parseName(p.model); n.model != p.model {
			t.Errorf("%s: its own name is read as %q", key, n.model)
		}
	}
}

func TestPricesRefused(t *testing.T) {
	for _, line := range []string{
		"anthropic claude-x",
		"anthropic claude-x 2026-13-01 1 5 1.25 2 0.1 512 - - - [D]",
		"anthropic claude-x - one 5 1.25 2 0.1 512 - - - [D]",
		"anthropic claude-x - 0 5 1.25 2 0.1 512 - - - [D]",
		"anthropic claude-x - 1 5 1.25 2 0.1 few - - - [D]",
		"anthropic claude-x - 1 5 1.25 2 0.1 512 9 - - [D]",
		"anthropic claude-x - 1 5 1.25 2 0.1 512 - x - [D]",
		"anthropic claude-x - 1 5 1.25 2 0.1 512 - - odd [D]",
	} {
		if _, err := parsePrices(line); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: error %v", line, err)
		}
	}
}
