// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import "testing"

func TestRulesOver(t *testing.T) {
	off, on := false, true
	onlyLate := Switches{LateTools: true}
	for _, c := range []struct {
		name         string
		rules        *Rules
		preset, want Switches
	}{
		{"nothing said", nil, Unlisted, Unlisted},
		{"auto", &Rules{Mode: Auto}, LocalServer, LocalServer},
		{"off", &Rules{Mode: Off}, LocalServer, Switches{}},
		{"on, of a hosted API", &Rules{Mode: On}, Switches{}, LocalServer},
		{"on, of a box that takes all calls", &Rules{Mode: On}, Unlisted, Unlisted},
		{"one off", &Rules{LateTools: &off}, Unlisted, LocalServer},
		{"one on", &Rules{LateTools: &on}, Switches{}, onlyLate},
	} {
		if got := c.rules.Over(c.preset); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
