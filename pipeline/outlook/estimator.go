// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/calibration"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Estimator turns bytes of a conversation into tokens.
type Estimator struct {
	calibration *calibration.Calibration
	rate        float64
}

// NewEstimator returns that of a conversation, nil for one that begins. The session has
// to be locked while it is used.
func NewEstimator(c *calibration.Calibration, l *sessioncache.Lineage) Estimator {
	return Estimator{c, Rate(l)}
}

// Tokens estimates some bytes of a kind of block.
func (e Estimator) Tokens(k wire.Kind, bytes int) float64 {
	return e.rate * e.calibration.PerByte(k) * float64(bytes)
}

// Rate corrects estimates by what the last request of a lineage really took.
func Rate(l *sessioncache.Lineage) float64 {
	if l == nil || l.Estimate == 0 || l.Last.Prompt() == 0 {
		return 1
	}
	return min(max(float64(l.Last.Prompt())/float64(l.Estimate), 0.25), 4)
}
