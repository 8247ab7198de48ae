// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"iter"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Mention is the content of a response in the form that traits are compared with.
type Mention struct {
	terms  termSet
	lines  []uint64
	unread bool // terms are not needed
}

var mentions = sync.Pool{New: func() any { return new(Mention) }}

// maxMention limits the compared lines of a response.
const maxMention = 400

// NewMention parses a response. [Mention.Release] returns the mention to the pool.
func NewMention(t *wire.Turn) *Mention {
	m := mentions.Get().(*Mention)
	m.text(t.Text)
	m.text(t.Thinking)
	for i := range t.Calls {
		if c := &t.Calls[i]; c.Free {
			m.text(c.Arguments)
		} else {
			m.value(gjson.Parse(c.Arguments), 0)
		}
	}
	return m
}

// Named returns a mention of the words in some texts.
func Named(texts iter.Seq[string]) *Mention {
	m := mentions.Get().(*Mention)
	for s := range texts {
		m.words(s)
	}
	return m
}

// Release returns the mention to the pool.
func (m *Mention) Release() {
	m.terms.clear()
	m.lines = m.lines[:0]
	mentions.Put(m)
}

// value adds the strings in a call's arguments.
func (m *Mention) value(v gjson.Result, depth int) {
	switch {
	case v.Type == gjson.String:
		m.text(v.Str)
	case depth < 6 && (v.IsArray() || v.IsObject()):
		v.ForEach(func(_, inner gjson.Result) bool {
			m.value(inner, depth+1)
			return true
		})
	}
}

func (m *Mention) text(s string) {
	if !m.unread {
		m.words(s)
	}
	for line := range strings.Lines(s) {
		if len(m.lines) == maxMention {
			return
		}
		if q, ok := Quotable(line); ok {
			m.lines = append(m.lines, Hash(q))
		}
	}
}

func (m *Mention) words(s string) {
	for word := range Words(s) {
		if word = strings.TrimRight(word, "."); len(word) < 4 {
			continue
		}
		m.terms.add(Hash(word))
		// A file can be named with or without its folder.
		if i := strings.LastIndexByte(word, '/'); i >= 0 && i+1 < len(word) {
			m.terms.add(Hash(word[i+1:]))
		}
	}
}

// Of reports whether the response refers to a block.
func (m *Mention) Of(t sessioncache.Trait) bool {
	return m.Names(t) || slices.ContainsFunc(m.lines, func(line uint64) bool { return HoldsLine(t, line) })
}

// Names reports whether the response names a block by its id or by a file of its call.
func (m *Mention) Names(t sessioncache.Trait) bool {
	for terms := t[1 : 1+8*int(t[0])]; terms != ""; terms = terms[8:] {
		if m.terms.has(word(terms)) {
			return true
		}
	}
	return false
}

// Quoted returns hashes of the quotable lines in a value, up to maxMention.
func Quoted(v gjson.Result) []uint64 {
	m := Mention{unread: true}
	m.value(v, 0)
	return m.lines
}

// LineHashes returns hashes of all quotable lines of a text.
func LineHashes(text string) []uint64 {
	lines, _ := appendLines(nil, text)
	return lines
}

// HoldsLine reports whether a block contains a line, with a small error rate.
func HoldsLine(t sessioncache.Trait, line uint64) bool { return inBloom(t[1+8*int(t[0]):], line) }

// termSeed distributes hashes over slots unpredictably for clients.
var termSeed = rand.Uint64() | 1 //nolint:gosec // no secret

// termSet is a set of hashes with open addressing. The zero value is empty.
type termSet struct {
	// Most responses need a set of some hundred hashes, for which a map costs several times as
	// much.
	slots []uint64 // a power of two in number, 0 for a free slot
	n     int
	zero  bool // 0 is in the set
}

// mostSlots limits the memory of a set kept for another response.
const mostSlots = 1 << 14

// slot returns the slot of a hash, or the free slot to use for it.
func (t *termSet) slot(h uint64) *uint64 {
	last := uint64(len(t.slots) - 1)
	for i := h * termSeed >> (64 - bits.Len64(last)); ; i = (i + 1) & last {
		if s := &t.slots[i]; *s == h || *s == 0 {
			return s
		}
	}
}

func (t *termSet) add(h uint64) {
	if h == 0 {
		t.zero = true
		return
	}
	if 2*t.n >= len(t.slots) {
		t.grow()
	}
	if s := t.slot(h); *s == 0 {
		*s = h
		t.n++
	}
}

func (t *termSet) has(h uint64) bool {
	if h == 0 {
		return t.zero
	}
	return t.n > 0 && *t.slot(h) == h
}

func (t *termSet) grow() {
	old := t.slots
	t.slots = make([]uint64, max(256, 2*len(old)))
	for _, h := range old {
		if h != 0 {
			*t.slot(h) = h
		}
	}
}

// clear empties the set.
func (t *termSet) clear() {
	if len(t.slots) > mostSlots {
		// A single long response must not keep its memory in the pool.
		t.slots = nil
	}
	clear(t.slots)
	t.n, t.zero = 0, false
}
