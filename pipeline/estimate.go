// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// estimate says how long the prompt is, as the client sent it and as it is sent. The
// session is locked.
func (p *Prompt) estimate(r *request, l *sessioncache.Lineage, s *sizing, original *sessioncache.Sizes) {
	scale := returnRate(l)
	s.original = r.session.Calibration.Tokens(original)
	p.OriginalTokens = int(scale * float64(s.original))
	p.SentTokens = int(scale * float64(s.estimate))
	if r.View.Conversation.Partial {
		p.reckon(r, l)
	}
}

// reckon estimates the whole prompt of a request that holds the end of it: what the
// last one took, what was answered, and what is new. The session is locked.
func (p *Prompt) reckon(r *request, l *sessioncache.Lineage) {
	if l == nil || l.Last.Prompt() == 0 {
		return
	}
	var more sessioncache.Sizes
	for _, b := range r.View.MessageBlocks() {
		more.Add(b.Kind, b.Span.Len())
	}
	p.SentTokens = int(l.Last.Prompt()+l.Last.Output) + r.session.Calibration.Tokens(&more)
	p.OriginalTokens = p.SentTokens + l.Less
}

// sizing is the size of a prompt, by kinds of blocks, and what it is estimated at.
type sizing struct {
	sent     sessioncache.Sizes // of what is sent
	grown    sessioncache.Sizes // of what is new in it
	estimate int                // of sent, in tokens, before correction
	original int                // of the client's, too
}

// measure sums up the sizes of what is sent, and of the original.
func measure(r *request) (s sizing, original sessioncache.Sizes) {
	for i := range r.View.Blocks {
		b := &r.View.Blocks[i]
		n := b.Span.Len()
		original.Add(b.Kind, n)
		j := i - r.View.System
		if j >= 0 {
			switch e := r.States[j].Edit; {
			case e == nil:
			case e.Op == wire.OpRemove:
				n = 0
			default:
				n += len(e.Value) - b.Body.Len()
			}
			w := r.States[j].Inserted.Size()
			if w > 0 {
				s.sent.Add(wire.KindToolResult, w)
			}
			if j >= r.Known {
				s.grown.Add(b.Kind, n)
				s.grown.Add(wire.KindToolResult, w)
			}
		}
		s.sent.Add(b.Kind, n)
	}
	if e, ok := r.declaration(); ok {
		s.sent.Add(wire.KindToolDef, len(e.Value))
	}
	s.sent.Add(wire.KindToolDef, len(r.offer.tools))
	s.estimate = r.session.Calibration.Tokens(&s.sent)
	return s, original
}
