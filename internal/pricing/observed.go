// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"sync"
	"time"
)

// Observed is what the usage of answers tells of models whose rules are assumed. The zero value is
// ready to use, and safe for concurrent use.
type Observed struct {
	mu     sync.Mutex
	models map[[2]string]*observation
}

// observation is what answers tell of the cache of one model.
type observation struct {
	found   time.Duration // the longest pause after which the prefix was found
	lost    time.Duration // the shortest pause, longer than found, after which it was missing
	held    int64         // the shortest prefix that the cache held, 0 for none
	refused int64         // the longest prefix that was missing at once
}

// Sighting is what one answer tells of the provider's cache.
type Sighting struct {
	// Left are the tokens of the prefix that the cache should hold since the last request, 0 if
	// there was none or something else explains a miss. Found are those that it held.
	Left, Found int64
	// Pause is the time since the last request.
	Pause time.Duration
	// Held are the tokens of the prompt that the cache holds, read or written.
	Held int64
}

const (
	// maxObserved bounds the models that are remembered.
	maxObserved = 64
	// Corrections stay within what providers are known to do.
	minObservedTTL, maxObservedTTL       = time.Minute, 24 * time.Hour
	minObservedTokens, maxObservedTokens = 256, 8192
)

// Observe learns from an answer of a model whose rules are assumed.
func (r *Rules) Observe(s Sighting) {
	o := r.observed
	if o == nil || r.TTL == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	key := [2]string{r.Provider, r.Model}
	m := o.models[key]
	if m == nil {
		if o.models == nil || len(o.models) >= maxObserved {
			o.models = map[[2]string]*observation{}
		}
		m = new(observation)
		o.models[key] = m
	}
	if s.Held > 0 && (m.held == 0 || s.Held < m.held) {
		m.held = s.Held
	}
	switch {
	case s.Left == 0:
	case s.Found >= s.Left/2:
		// A miss after a shorter pause had another reason.
		if m.found = max(m.found, s.Pause); m.lost <= m.found {
			m.lost = 0
		}
	case s.Found == 0 && s.Pause < minObservedTTL:
		// A prefix lost at once was never cached: it was too short, or went to another server.
		m.refused = max(m.refused, s.Left)
	case s.Found == 0 && s.Pause > m.found && (m.lost == 0 || s.Pause < m.lost):
		m.lost = s.Pause
	}
}

// Corrected returns assumed rules with the lifetime and the minimum that the answers so far tell.
// Rules that are the model's own, or that the operator has stated, stay as they are.
func (r Rules) Corrected() Rules {
	o := r.observed
	if o == nil || r.TTL == 0 {
		return r
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.models[[2]string{r.Provider, r.Model}]
	if m == nil {
		return r
	}
	if m.found > r.TTL {
		r.TTL = min(m.found, maxObservedTTL)
	} else if m.lost > 0 && m.lost < r.TTL {
		r.TTL = max(m.lost, minObservedTTL)
	}
	if m.refused >= int64(r.MinTokens) {
		r.MinTokens = int(min(m.refused+1, maxObservedTokens))
	}
	if m.held > 0 && m.held < int64(r.MinTokens) {
		r.MinTokens = int(max(m.held, minObservedTokens))
	}
	return r
}
