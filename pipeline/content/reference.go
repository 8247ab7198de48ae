// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"
	"github.com/zeebo/xxh3"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// CountLines counts the lines of a text, including an unterminated last line.
func CountLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// HeadLines returns the first up to n non-blank lines, each cut to width characters.
func HeadLines(s string, n, width int) []string {
	out := make([]string, 0, n)
	for line := range strings.Lines(s) {
		if len(out) == n {
			break
		}
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, Clip(line, width))
		}
	}
	return out
}

// Clip cuts a text to a number of characters and marks the cut by an ellipsis.
func Clip(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	n := 0
	for i := range s {
		if n++; n == width {
			return s[:i] + "…"
		}
	}
	return s
}

// appendLines appends the hashes of the quotable lines of a text, and counts the lines that look
// like source code.
func appendLines(hashes []uint64, text string) (lines []uint64, source int) {
	for line := range strings.Lines(text) {
		if q, ok := Quotable(line); ok {
			hashes = append(hashes, Hash(q))
			if isSource(q) {
				source++
			}
		}
	}
	return hashes, source
}

// isSource reports whether a line looks like source code.
func isSource(line string) bool {
	switch line[len(line)-1] {
	case '{', '}', '(', ')', '[', ']', ';', ',', '<', '>', '=':
		return true
	}
	// Contains, for texts of two and three bytes, takes several times as long as a search for the rare byte.
	for rest := line; ; {
		i := strings.IndexByte(rest, '=')
		if i < 0 {
			break
		}
		if i > 0 && rest[i-1] == ' ' && rest[i+1] == ' ' { // the line does not end in =
			return true
		}
		rest = rest[i+1:]
	}
	for rest := line; ; {
		i := strings.IndexByte(rest, '(')
		if i < 0 {
			return false
		}
		if rest[i+1] == '"' { // the line does not end in (
			return true
		}
		rest = rest[i+1:]
	}
}

// minQuote is the minimum length of a line that counts as a quotation when it is in a tool result
// and in a response.
const minQuote = 25

// Quotable normalizes a line for comparisons: without indentation, line number, file name of a
// search hit, and diff sign. It returns false for a line too short to quote.
func Quotable(line string) (string, bool) {
	if len(line) < minQuote {
		return "", false
	}
	line = unnumbered(strings.TrimSpace(line))
	if len(line) > 0 && (line[0] == '+' || line[0] == '-') {
		line = strings.TrimSpace(line[1:])
	}
	return line, len(line) >= minQuote
}

// unnumbered returns a line without a leading line number or file name with line number.
func unnumbered(line string) string {
	if rest, ok := numbered(line); ok {
		return rest
	}
	i := strings.IndexByte(line, ':')
	if i <= 0 || i > maxName || strings.IndexByte(line[:i], ' ') >= 0 {
		return line
	}
	if rest, ok := numbered(line[i+1:]); ok {
		return rest
	}
	return line
}

// maxName is the maximum length of a file name before a line number.
const maxName = 160

// numbered returns the text after a line number.
func numbered(line string) (string, bool) {
	i := 0
	for i < len(line) && line[i] >= '0' && line[i] <= '9' {
		i++
	}
	if i == 0 || i == len(line) {
		return "", false
	}
	rest := line[i:]
	switch rest[0] {
	case '\t', ':', '|', '-':
		return strings.TrimSpace(rest[1:]), true
	case "→"[0]:
		if after, ok := strings.CutPrefix(rest, "→"); ok {
			return strings.TrimSpace(after), true
		}
	}
	return "", false
}

// Hash is the same in every process. Edits and samples depend on it and must not change with a
// restart or an update.
func Hash(s string) uint64 { return xxh3.HashString(s) }

// inWord marks the bytes of paths and words. Non-ASCII bytes separate words, as quotation marks and
// arrows do.
var inWord = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c < 0x80 &&
			strings.IndexByte("_./-~@+", byte(c)) >= 0
	}
	return table
}()

// Words yields the words of a text, made of the characters of paths.
func Words(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; i < len(s); i++ {
			if !inWord[s[i]] {
				continue
			}
			start := i
			for i < len(s) && inWord[s[i]] {
				i++
			}
			if !yield(s[start:i]) {
				return
			}
		}
	}
}

// Reference determines whether a response refers to a block: by the block's paths and by quoted
// lines.

// maxTerms limits the terms of a trait.
const maxTerms = 10

// appendTerms appends the hashes of the path-like words of an argument.
func appendTerms(terms []uint64, argument string) []uint64 {
	for word := range Words(argument) {
		if len(terms) >= maxTerms-1 { // a word may add two
			break
		}
		if !strings.ContainsAny(word, "/.") || len(word) < 4 {
			continue
		}
		terms = append(terms, Hash(word))
		if base := path.Base(word); base != word && len(base) > 4 && strings.Contains(base, ".") {
			terms = append(terms, Hash(base))
		}
	}
	return terms
}

// newTrait returns a trait: the number of terms, the terms, and a Bloom filter of the quotable
// lines with about ten bits and three probes for each.
func newTrait(terms, lines []uint64) sessioncache.Trait {
	words := (len(lines)*10 + 63) / 64
	t := make([]byte, 1, 1+8*(len(terms)+words))
	t[0] = byte(len(terms))
	for _, h := range terms {
		t = binary.LittleEndian.AppendUint64(t, h)
	}
	// One line in sixty wrongly counts as a quotation, which only keeps a block for longer.
	filter := t[len(t):cap(t)]
	for _, h := range lines {
		for probe := range uint64(3) {
			at := probeAt(h, probe, len(filter))
			filter[at/8] |= 1 << (at % 8)
		}
	}
	t = t[:cap(t)]
	return sessioncache.Trait(unsafe.String(unsafe.SliceData(t), len(t))) // no other reference to the bytes exists
}

// probeAt returns the bit for a probe of a hash.
func probeAt(h, probe uint64, bytes int) uint64 {
	// The share of the hash in all hashes maps to the same share of the bits.
	at, _ := bits.Mul64(h+probe*(h<<32|1), uint64(bytes*8))
	return at
}

func inBloom(filter sessioncache.Trait, h uint64) bool {
	if len(filter) == 0 {
		return false
	}
	for probe := range uint64(3) {
		at := probeAt(h, probe, len(filter))
		if filter[at/8]&(1<<(at%8)) == 0 {
			return false
		}
	}
	return true
}

// Shows reports whether the block of a trait contains at least half of a text's quotable lines.
func Shows(t sessioncache.Trait, text string) bool {
	if t == "" {
		return false
	}
	filter := t[1+8*int(t[0]):]
	lines, found := 0, 0
	for line := range strings.Lines(text) {
		if q, ok := Quotable(line); ok {
			if lines++; inBloom(filter, Hash(q)) {
				found++
			}
		}
	}
	return found > 0 && 2*found >= lines
}

// ReferenceMaker makes traits in reusable memory.
type ReferenceMaker struct {
	lines   []uint64 // of one block at a time
	source  int      // the number of lines that look like source code
	sampled []uint64
}

var makers = sync.Pool{New: func() any { return new(ReferenceMaker) }}

// NewReferenceMaker returns a maker from the pool; see [ReferenceMaker.Release].
func NewReferenceMaker() *ReferenceMaker { return makers.Get().(*ReferenceMaker) }

// Release returns the maker to the pool.
func (k *ReferenceMaker) Release() { makers.Put(k) }

// Result returns the trait of a result: the id and argument of its call, and the lines of its text.
func (k *ReferenceMaker) Result(id, argument, text string) sessioncache.Trait {
	var few [maxTerms]uint64
	k.lines, k.source = appendLines(k.lines[:0], text)
	return newTrait(appendTerms(append(few[:0], Hash(id)), argument), k.lines)
}

// Input returns the trait of a call's written text.
func (k *ReferenceMaker) Input(argument string, input gjson.Result) sessioncache.Trait {
	var few [maxTerms]uint64
	m := Mention{lines: k.lines[:0], unread: true}
	m.value(input, 0)
	k.lines, k.source = m.lines, 0
	return newTrait(appendTerms(few[:0], argument), k.lines)
}

// Source is the share of the last block's quotable lines that look like source code, in sixteenths,
// at most 15.
func (k *ReferenceMaker) Source() uint8 { return uint8(min(15, 16*k.source/max(1, len(k.lines)))) }

// One line in sampleStride is sampled, up to maxSampled per block.
const (
	sampleStride = 4
	maxSampled   = 48
)

// Sampled returns a sample of the last block's lines. A line is sampled in every block that
// contains it, or in none. The result is valid until the next trait.
func (k *ReferenceMaker) Sampled() []uint64 {
	k.sampled = k.sampled[:0]
	for _, h := range k.lines {
		if h>>32%sampleStride == 0 && len(k.sampled) < maxSampled {
			k.sampled = append(k.sampled, h)
		}
	}
	return k.sampled
}

// CountMatches returns the number of lines that the block of a trait contains.
func CountMatches(t sessioncache.Trait, lines []uint64) (n int) {
	filter := t[1+8*int(t[0]):]
	if len(filter) == 0 {
		return 0
	}
	for _, h := range lines {
		// All three probes are made without branches: their bits are random, and a wrongly
		// predicted branch costs more.
		a, b, c := probeAt(h, 0, len(filter)), probeAt(h, 1, len(filter)), probeAt(h, 2, len(filter))
		n += int(filter[a/8] >> (a % 8) & (filter[b/8] >> (b % 8)) & (filter[c/8] >> (c % 8)) & 1)
	}
	return n
}

// word returns the first word of a trait: a term or a part of the filter.
func word(t sessioncache.Trait) uint64 {
	_ = t[7]
	return uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
		uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
}

// ReferenceIndex finds the blocks that contain a line, like [CountMatches] for many blocks at once.
type ReferenceIndex struct{ lengths []shelves }

// shelves holds filters of one length.
type shelves struct {
	bytes int
	all   []shelf
}

// shelf holds up to 64 filters: a word for each filter bit, with one bit for each filter.
type shelf struct {
	words []uint64
	ids   []int32
}

// Add adds the filter of a trait under a number.
func (x *ReferenceIndex) Add(t sessioncache.Trait, id int) {
	filter := t[1+8*int(t[0]):]
	if len(filter) == 0 {
		return
	}
	of := x.of(len(filter))
	if n := len(of.all); n == 0 || len(of.all[n-1].ids) == 64 {
		of.all = append(of.all, shelf{words: make([]uint64, 8*len(filter))})
	}
	s := &of.all[len(of.all)-1]
	bit := uint64(1) << len(s.ids)
	s.ids = append(s.ids, int32(id))
	for i := 0; i < len(filter); i += 8 {
		for b := word(filter[i:]); b != 0; b &= b - 1 {
			s.words[8*i+bits.TrailingZeros64(b)] |= bit
		}
	}
}

// of returns the shelves for filters of a length.
func (x *ReferenceIndex) of(bytes int) *shelves {
	for i := range x.lengths {
		if x.lengths[i].bytes == bytes {
			return &x.lengths[i]
		}
	}
	x.lengths = append(x.lengths, shelves{bytes: bytes})
	return &x.lengths[len(x.lengths)-1]
}

// Containing calls found for each block that contains a line, with the same error rate as [ContainsLine].
func (x *ReferenceIndex) Containing(line uint64, found func(id int)) {
	for i := range x.lengths {
		of := &x.lengths[i]
		// The probes of a line are the same bits in all filters of one length, so 64 filters are
		// checked at once.
		a, b, c := probeAt(line, 0, of.bytes), probeAt(line, 1, of.bytes), probeAt(line, 2, of.bytes)
		for k := range of.all {
			s := &of.all[k]
			for hits := s.words[a] & s.words[b] & s.words[c]; hits != 0; hits &= hits - 1 {
				found(int(s.ids[bits.TrailingZeros64(hits)]))
			}
		}
	}
}

// Shelves returns the number of shelves that one search reads.
func (x *ReferenceIndex) Shelves() (n int) {
	for i := range x.lengths {
		n += len(x.lengths[i].all)
	}
	return n
}

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
	return m.Names(t) || slices.ContainsFunc(m.lines, func(line uint64) bool { return ContainsLine(t, line) })
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

// ContainsLine reports whether a block contains a line, with a small error rate.
func ContainsLine(t sessioncache.Trait, line uint64) bool { return inBloom(t[1+8*int(t[0]):], line) }

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

// maxSlots limits the memory of a set kept for another response.
const maxSlots = 1 << 14

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
	if len(t.slots) > maxSlots {
		// A single long response must not keep its memory in the pool.
		t.slots = nil
	}
	clear(t.slots)
	t.n, t.zero = 0, false
}
