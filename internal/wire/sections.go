// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// part is the tools or system section during the parse.
type part struct {
	section
	blocks []Block
	by     int32 // distance to move the blocks' spans
	known  bool  // recalled from the Known
}

// put copies the blocks to their place in the view.
func (s *part) put(to []Block) {
	if copy(to, s.blocks); s.by != 0 {
		move(to[:len(s.blocks)], s.by)
	}
}

// section skips the value of tools or system. A known value is not scanned.
func (p *Parser) section(m *rawjson.Members, s *part) {
	if end := p.recallSection(s, m.At); end > 0 {
		m.At = end
		return
	}
	s.span = m.Skip()
}

// sections reads tools and system. Sections before the messages could not be recognised until now,
// so it tries that first.
func (p *Parser) sections() error {
	if s := &p.tools; p.unread(s) {
		e := p.Elements(int(s.span.Start))
		for e.Next() {
			at, n := e.At, len(s.blocks)
			if e.At = p.codec.Tool(p, at); e.At > 0 {
				continue
			}
			// An unreadable definition becomes an opaque block.
			var b Block
			if b, e.At = p.Opaque(at, Block{Kind: KindToolDef, Section: SectionTools, Message: -1}); e.At < 0 {
				return p.err
			}
			s.blocks = append(s.blocks[:n], b)
		}
		if e.Bad {
			return fmt.Errorf("%w: tools is not an array", ErrShape)
		}
		s.hash = rawHash(s.span.Of(p.Body))
	}
	if s := &p.system; p.unread(s) {
		n := len(p.Blocks)
		p.codec.System(p, s.span)
		// An unreadable system prompt becomes an opaque block.
		if p.err != nil && p.Shut(int(s.span.Start), n, SectionSystem, RoleSystem, -1) < 0 {
			return p.err
		}
		if len(p.Blocks) > n {
			p.attribute(&p.Blocks[n])
		}
		s.blocks = append(s.blocks, p.Blocks[n:]...)
		p.Blocks = p.Blocks[:n]
		s.hash = rawHash(s.span.Of(p.Body))
	}
	return nil
}

// unread reports whether a section is present and still has to be read.
func (p *Parser) unread(s *part) bool {
	if s.known || s.span.Empty() {
		return false
	}
	// A null section counts as absent.
	if IsNull(p.Body, s.span) {
		s.span = rawjson.Span{}
		return false
	}
	return p.recallSection(s, int(s.span.Start)) != int(s.span.End)
}

// recallSection recognises the value of tools or system at b[at]. It returns the index after the
// value, or 0.
func (p *Parser) recallSection(s *part, at int) int {
	k := p.recognition.known
	if k == nil || at < 0 || s.known {
		return 0
	}
	old, from, to := &k.system, k.nTools, k.nSystem
	if s == &p.tools {
		old, from, to = &k.tools, 0, k.nTools
	}
	end := at + old.span.Len()
	if old.span.Empty() || end > len(p.Body) || rawHash(p.Body[at:end]) != old.hash {
		return 0
	}
	*s = part{
		section: section{rawjson.Span{Start: int32(at), End: int32(end)}, old.hash},
		blocks:  k.blocks[from:to:to], by: int32(at) - old.span.Start, known: true,
	}
	p.View.Recalled += to - from
	return end
}
