// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// estimator converts bytes of a conversation to tokens.
type estimator struct {
	calibration *sessioncache.Calibration
	rate        float64
}

// newEstimator returns the estimator of a conversation, l nil for a new one. The session must be
// locked during its use.
func newEstimator(c *sessioncache.Calibration, l *sessioncache.Lineage) estimator {
	return estimator{c, returnRate(l)}
}

// Tokens estimates the tokens of some bytes in a kind of block.
func (e estimator) Tokens(k wire.Kind, bytes int) float64 {
	return e.rate * e.calibration.PerByte(k) * float64(bytes)
}

// returnRate corrects estimates by the actual size of the conversation's last prompt.
func returnRate(l *sessioncache.Lineage) float64 {
	if l == nil || l.Estimate == 0 || l.Last.Prompt() == 0 {
		return 1
	}
	return min(max(float64(l.Last.Prompt())/float64(l.Estimate), 0.25), 4)
}
