// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"

// maxWindow bounds the prompts of models whose window is not known: no hosted model has a
// longer one [S].
const maxWindow = 2_000_000

// Bound returns the usage of one call of the model with no more tokens than its window and
// the bound on the answer allow, 0 for no such bound. It reports whether there were more:
// one wrong number must not spend a budget.
func (r *Rules) Bound(u wire.Usage, maxOutput int) (wire.Usage, bool) {
	before, window := u, int64(r.ContextWindow)
	if window == 0 {
		window = maxWindow
	}
	// The longest part of the prompt is the one to doubt.
	for over := u.Prompt() - window; over > 0; over = u.Prompt() - window {
		most := &u.Uncached
		for _, part := range [...]*int64{&u.Write5m, &u.Write1h, &u.Read} {
			if *part > *most {
				most = part
			}
		}
		*most -= min(over, *most)
	}
	limit := window
	if maxOutput > 0 {
		limit = min(limit, max(int64(maxOutput), minOutput))
	}
	u.Output = min(u.Output, limit)
	return u, u != before
}

// minOutput is the least bound on an answer that OpenAI takes: translations raise lower
// ones to it.
const minOutput = 16
