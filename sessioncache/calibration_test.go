// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func TestCalibrationLearns(t *testing.T) {
	var c Calibration
	var s Sizes
	s[wire.KindText] += 1000
	before := c.Tokens(&s)
	for range 50 {
		var g Sizes
		g[wire.KindText] += 4000
		g[wire.KindToolResult] += 8000
		c.Learn(&g, 4000*40/100+8000*25/100)
		var h Sizes
		h[wire.KindText] += 6000
		c.Learn(&h, 6000*40/100)
	}
	if after := c.Tokens(&s); before > 300 || after < 385 || after > 415 {
		t.Errorf("1000 bytes of text: %d tokens before, %d after, want about 400", before, after)
	}
	c.Learn(&s, 1_000_000) // not a growth
	if after := c.Tokens(&s); after > 415 {
		t.Errorf("an outlier was believed: %d", after)
	}
}
