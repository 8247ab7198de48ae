// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// A request takes the steps of its mode. Steps for continued conversations, and steps that make edits
// of a refused kind, are left out.
func TestSteps(t *testing.T) {
	begun := sessioncache.Match{Conversation: new(sessioncache.Conversation)}
	for _, c := range []struct {
		name string
		r    request
		want string
	}{
		{
			"first request, planned",
			request{mode: planned},
			"declare, withdraw, learn, clear, admit, plan, strip narration, compress, bind thinking, lengthen, breakpoints, " +
				"estimate, splice",
		},
		{
			"planned",
			request{mode: planned, match: begun},
			"declare, reinsert, withdraw, restore tools, order tools, compare prefix, learn, misses, clear, admit, give back, " +
				"plan, strip narration, compress, bind thinking, lengthen, breakpoints, estimate, splice",
		},
		{
			"eager",
			request{mode: eager, match: begun},
			"declare, reinsert, withdraw, restore tools, order tools, compare prefix, learn, misses, clear, admit, prune, compact, " +
				"prune again, strip narration, strip thinking, compress, bind thinking, lengthen, breakpoints, estimate, splice",
		},
		{
			"ordered",
			request{mode: ordered, match: begun},
			"declare, reinsert, withdraw, restore tools, order tools, compare prefix, learn, misses, clear, lengthen, breakpoints, " +
				"estimate, splice",
		},
		{"retained", request{mode: retained, match: begun}, "withdraw, learn, estimate, splice"},
		{
			"no edits of text",
			request{mode: planned, match: begun, off: wire.EditText},
			"declare, reinsert, withdraw, order tools, compare prefix, learn, breakpoints, estimate, splice",
		},
		{
			"no tools",
			request{mode: ordered, match: begun, off: wire.EditTools},
			"declare, reinsert, withdraw, compare prefix, learn, misses, clear, lengthen, breakpoints, estimate, splice",
		},
		{
			"no markers",
			request{mode: ordered, match: begun, off: wire.EditMarkers},
			"declare, reinsert, withdraw, restore tools, order tools, compare prefix, learn, misses, clear, estimate, splice",
		},
	} {
		var took []string
		for i := range steps {
			if steps[i].takes(&c.r) {
				took = append(took, steps[i].name)
			}
		}
		if got := strings.Join(took, ", "); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}
