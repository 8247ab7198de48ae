// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package pipeline

import (
	"encoding/binary"
	"iter"
	"path"
	"strings"
	"sync"
	"unsafe"

	"github.com/cespare/xxhash/v2"
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// minQuote is the length from which a line is taken to be a quotation when it
// stands both in a tool result and in an answer.
const minQuote = 25

// minTrait is the length in bytes below which a result is not worth pruning.
const minTrait = 200

// hashOf is the same in every process: what it decides must not change with a
// restart.
func hashOf(s string) uint64 { return xxhash.Sum64String(s) }

// arguments are the members of tool inputs that say what a call was about, the
// most telling first.
var arguments = []string{"file_path", "filePath", "absolute_path", "notebook_path", "path", "dir_path", "filename", "url", "command", "cmd", "pattern", "query"}

// argument returns the most telling argument of a call.
func argument(input gjson.Result) string {
	input = decoded(input)
	if _, file := patchIn(input); file != "" {
		return file
	}
	if input.Type == gjson.String {
		if commands := commandsIn(input.Str); len(commands) > 0 {
			return strings.Join(commands, "\n")
		}
		return input.Str
	}
	for _, name := range arguments {
		switch v := input.Get(name); {
		case v.Type == gjson.String:
			return v.Str
		case v.IsArray():
			return shellLine(v)
		}
	}
	return ""
}

// mostBetween is the number of blocks between a call and its result, and between
// the results of an answer and its first call, up to which they are found: far more
// than models call tools at once, and little enough to look for each.
const mostBetween = 512

// callOf finds the call that a tool result answers, in the messages before it:
// its index, or -1.
func (f *frame) callOf(i int) int {
	if f.callees != nil && i >= f.previous && f.callees[i-f.previous] > 0 {
		return int(f.callees[i-f.previous]) - 2
	}
	id := f.view.Bytes(f.blocks[i].ID)
	if len(id) == 0 {
		return f.callInOrder(i)
	}
	for j := i - 1; j >= max(0, i-mostBetween); j-- {
		b := &f.blocks[j]
		if b.Kind == wire.KindToolUse && string(f.view.Bytes(b.ID)) == string(id) {
			return j
		}
		if b.Role == wire.RoleAssistant && b.Message+2 < f.blocks[i].Message && f.view.Format == wire.Anthropic {
			break // results follow their call at once
		}
	}
	if f.view.Format == wire.Gemini { // the client has made up an id of its own
		return f.callInOrder(i)
	}
	return -1
}

// callInOrder finds the call that a tool result without an id answers: of the
// calls of its name in the answer before it, the one that has as many in front
// of it as the result has results of that name.
func (f *frame) callInOrder(i int) int {
	name := f.view.Bytes(f.blocks[i].Name)
	if len(name) == 0 {
		return -1
	}
	same := func(j int, k wire.Kind) bool {
		return f.blocks[j].Kind == k && string(f.view.Bytes(f.blocks[j].Name)) == string(name)
	}
	before, j, least := 0, i-1, max(0, i-2*mostBetween)
	for ; j >= least && f.blocks[j].Role != wire.RoleAssistant; j-- {
		if same(j, wire.KindToolResult) {
			before++
		}
	}
	first := j
	for first > least && f.blocks[first-1].Role == wire.RoleAssistant {
		first--
	}
	if j < least || first == least && least > 0 {
		return -1
	}
	for n := max(first, 0); n <= j; n++ {
		if !same(n, wire.KindToolUse) {
			continue
		}
		if before == 0 {
			return n
		}
		before--
	}
	return -1
}

// mostTerms bounds the terms of a trait.
const mostTerms = 10

// appendTerms adds the hashes of the path-like words of an argument.
func appendTerms(terms []uint64, argument string) []uint64 {
	for word := range words(argument) {
		if len(terms) >= mostTerms-1 { // a word may add two
			break
		}
		if !strings.ContainsAny(word, "/.") || len(word) < 4 {
			continue
		}
		terms = append(terms, hashOf(word))
		if base := path.Base(word); base != word && len(base) > 4 && strings.Contains(base, ".") {
			terms = append(terms, hashOf(base))
		}
	}
	return terms
}

// inWord tells of each byte whether paths and words are made of it. What is not
// ASCII parts words, as quotation marks and arrows do.
var inWord = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c < 0x80 && strings.IndexByte("_./-~@+", byte(c)) >= 0
	}
	return table
}()

// words yields the words of a text, of the characters that paths are made of.
func words(s string) iter.Seq[string] {
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

// quotable brings a line into the form in which quotations are compared:
// without indentation and without the line number that file tools put before.
func quotable(line string) (string, bool) {
	if len(line) < minQuote {
		return "", false
	}
	line = strings.TrimSpace(line)
	i := 0
	for i < len(line) && line[i] >= '0' && line[i] <= '9' {
		i++
	}
	if rest := line[i:]; i > 0 && rest != "" {
		switch rest[0] {
		case '\t', ':', '|':
			line = strings.TrimSpace(rest[1:])
		case "→"[0]:
			if after, ok := strings.CutPrefix(rest, "→"); ok {
				line = strings.TrimSpace(after)
			}
		}
	}
	return line, len(line) >= minQuote
}

// newTrait makes a trait of terms and of hashes of quotable lines: the number of
// the terms, the terms, and a Bloom filter of the lines with about ten bits for
// each and three probes. One line in sixty is taken for a quotation wrongly,
// which only keeps a block longer.
func newTrait(terms, lines []uint64) sessioncache.Trait {
	words := (len(lines)*10 + 63) / 64
	t := make([]byte, 1, 1+8*(len(terms)+words))
	t[0] = byte(len(terms))
	for _, h := range terms {
		t = binary.LittleEndian.AppendUint64(t, h)
	}
	filter := t[len(t):cap(t)]
	for _, h := range lines {
		for probe := range uint64(3) {
			at := probeAt(h, probe, len(filter))
			filter[at/8] |= 1 << (at % 8)
		}
	}
	t = t[:cap(t)]
	return sessioncache.Trait(unsafe.String(unsafe.SliceData(t), len(t))) // nothing else holds the bytes
}

func probeAt(h, probe uint64, bytes int) uint64 {
	return (h + probe*(h>>32|1)) % uint64(bytes*8)
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

// mention is what an answer says, in the form that traits are compared with.
type mention struct {
	terms  termSet
	lines  []uint64
	unread bool // terms are not asked for
}

var mentions = sync.Pool{New: func() any { return new(mention) }}

// maxMention bounds the lines of an answer that are compared.
const maxMention = 400

// newMention reads an answer. The mention goes back to the pool with release.
func newMention(t *wire.Turn) *mention {
	m := mentions.Get().(*mention)
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

func (m *mention) release() {
	m.terms.clear()
	m.lines = m.lines[:0]
	mentions.Put(m)
}

// value takes in the strings of a call's arguments.
func (m *mention) value(v gjson.Result, depth int) {
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

func (m *mention) text(s string) {
	if !m.unread {
		m.words(s)
	}
	for line := range strings.Lines(s) {
		if len(m.lines) == maxMention {
			return
		}
		if q, ok := quotable(line); ok {
			m.lines = append(m.lines, hashOf(q))
		}
	}
}

func (m *mention) words(s string) {
	for word := range words(s) {
		if word = strings.TrimRight(word, "."); len(word) < 4 {
			continue
		}
		m.terms.add(hashOf(word))
		if i := strings.LastIndexByte(word, '/'); i >= 0 && i+1 < len(word) {
			m.terms.add(hashOf(word[i+1:]))
		}
	}
}

// of tells whether the answer refers to a block.
func (m *mention) of(t sessioncache.Trait) bool {
	terms, filter := t[1:1+8*int(t[0])], t[1+8*int(t[0]):]
	for ; terms != ""; terms = terms[8:] {
		if m.terms.has(term(terms)) {
			return true
		}
	}
	for _, line := range m.lines {
		if inBloom(filter, line) {
			return true
		}
	}
	return false
}

// term returns the first of the terms.
func term(t sessioncache.Trait) uint64 {
	_ = t[7]
	return uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
		uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
}
