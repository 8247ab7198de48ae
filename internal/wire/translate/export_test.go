// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// MaxBuffered is maxBuffered for tests.
const MaxBuffered = maxBuffered

// RulesOf returns the rules of a format.
func RulesOf(f wire.Format) *Rules { return &dialectOf(f).rules }

// SameTools reports whether the turns share their tools, so that these were not read again.
func (t *Turns) SameTools(other *Turns) bool {
	return t != other && other != nil && t.tools != nil && t.tools == other.tools
}

// UsesTurns reports whether a request is translated with its turns.
func UsesTurns(from, to wire.Format, in Incoming, o Options) bool {
	_, ok := in.Turns.convert(from, to, in, o)
	return ok
}
