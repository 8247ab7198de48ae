// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// estimate estimates the length of the client's prompt and of the sent prompt. The session is
// locked.
func (p *Prompt) estimate(r *request, l *sessioncache.Lineage, s *sizing, original *sessioncache.Sizes) {
	scale := returnRate(l)
	s.original = r.session.Calibration.Tokens(original)
	p.OriginalTokens = int(scale * float64(s.original))
	p.SentTokens = int(scale * float64(s.estimate))
	if r.View.Conversation.Partial {
		p.reckon(r, l)
	}
}

// reckon estimates the whole prompt of a request that contains only its end: the last prompt, the
// response and the new blocks. The session is locked.
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

// sizing holds the sizes of a prompt by kinds of blocks, with their estimates.
type sizing struct {
	sent     sessioncache.Sizes // the sent prompt
	grown    sessioncache.Sizes // its new blocks
	estimate int                // the sent prompt in tokens, before correction
	original int                // the client's prompt in tokens, before correction
}

// measure sums up the sizes of the sent and of the original prompt.
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
