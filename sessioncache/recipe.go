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

package sessioncache

import (
	"bytes"
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// A recipe says how the value of an edit is made of the body of its block: pieces of
// the body, and what we have put between them. So a snapshot holds none of what the
// client has written: it comes back with the client's next request.
//
// It is the hash of the value and its pieces in order: twice the length, and one more
// for a piece of the body, with how far behind the last such piece it begins; or the
// bytes themselves.

const (
	// minPiece is the shortest piece of a body that is looked for anywhere, and
	// pieceStep how far apart the places of a value are at which it is.
	minPiece, pieceStep = 24, 8
	// minNear is the shortest piece that is looked for right behind the last one,
	// within near bytes: most edits leave something out.
	minNear, near = 4, 256
	// mostOwn is how many bytes of a value may be our own: as long as a stub, for each
	// of the texts that a call may hold. What is less like its block than that may hold
	// text that the client has sent elsewhere, and is not kept.
	mostOwn = 4 << 10
)

// noRecipe is that of a value which cannot be made so.
var noRecipe = []byte{}

// A recipe is made from the body as it stands, or without the blanks in front of line
// numbers, whichever is shorter. It says so in the byte behind the hash.
const (
	fromBody = iota
	fromUnpadded
)

// shortRecipe is so short that none is looked for that is shorter.
const shortRecipe = 64

// newRecipe makes the recipe of a value from the body of its block.
func newRecipe(value, body []byte) []byte {
	recipe := appendRecipe(append(binary.LittleEndian.AppendUint32(nil, sumOf(value)), fromBody), value, body)
	if len(recipe) > 0 && len(recipe) <= shortRecipe {
		return recipe
	}
	if bare := unpadded(body); len(bare) < len(body) {
		other := appendRecipe(append(binary.LittleEndian.AppendUint32(nil, sumOf(value)), fromUnpadded), value, bare)
		if len(other) > 0 && (len(recipe) == 0 || len(other) < len(recipe)) {
			return other
		}
	}
	return recipe
}

// unpadded is a JSON string without the blanks in front of the numbers of its lines, by
// which tools show files and admission does not.
func unpadded(body []byte) []byte {
	out := make([]byte, 0, len(body))
	for len(body) > 0 {
		rest := bytes.TrimLeft(body, " ")
		if len(rest) > 0 && (rest[0] < '0' || rest[0] > '9') {
			rest = body
		}
		end := bytes.Index(rest, lineBreak)
		if end < 0 {
			return append(out, rest...)
		}
		end += len(lineBreak)
		out, body = append(out, rest[:end]...), rest[end:]
	}
	return out
}

// lineBreak ends a line in a JSON string.
var lineBreak = []byte(`\n`)

// appendRecipe appends the pieces of a recipe. It returns noRecipe where they would
// hold too much that is not of the body.
func appendRecipe(out, value, body []byte) []byte {
	own, copied, at, far := 0, 0, 0, 0 // copied: so much of the value is in the recipe
	for i := 0; i+minNear <= len(value); {
		n := bytes.Index(body[at:min(at+near, len(body))], value[i:i+minNear])
		if n >= 0 {
			n += at
		} else if n = -1; i >= far && i+minPiece <= len(value) {
			far = i + pieceStep
			n = bytes.Index(body, value[i:i+minPiece])
		}
		if n < 0 {
			i++
			continue
		}
		from, to, end := i, n, i
		for from > copied && to > 0 && value[from-1] == body[to-1] {
			from, to = from-1, to-1
		}
		for ; end < len(value) && n < len(body) && value[end] == body[n]; end++ {
			n++
		}
		own += from - copied
		out = appendOwn(out, value[copied:from])
		out = binary.AppendUvarint(out, uint64(end-from)<<1|1)
		out = binary.AppendVarint(out, int64(to-at))
		i, copied, at = end, end, n
	}
	if own += len(value) - copied; own > mostOwn {
		return noRecipe
	}
	return appendOwn(out, value[copied:])
}

func appendOwn(out, own []byte) []byte {
	if len(own) == 0 {
		return out
	}
	return append(binary.AppendUvarint(out, uint64(len(own))<<1), own...)
}

func sumOf(value []byte) uint32 { return uint32(xxh3.Hash(value)) }

// cook makes the value of a recipe. It reports false if the body is another one than
// the recipe is for.
func cook(recipe, body []byte) ([]byte, bool) {
	if len(recipe) < 5 || recipe[4] > fromUnpadded {
		return nil, false
	}
	if recipe[4] == fromUnpadded {
		body = unpadded(body)
	}
	sum, rest := binary.LittleEndian.Uint32(recipe), recipe[5:]
	value := make([]byte, 0, len(rest))
	for end := int64(0); len(rest) > 0; {
		n, k := binary.Uvarint(rest)
		if k <= 0 {
			return nil, false
		}
		rest = rest[k:]
		length, from := n>>1, rest
		if n&1 != 0 {
			skip, k := binary.Varint(rest)
			at := end + skip
			if k <= 0 || at < 0 || at > int64(len(body)) {
				return nil, false
			}
			rest, from = rest[k:], body[at:]
			end = at + int64(length)
		}
		if length > uint64(len(from)) || uint64(len(value))+length > uint64(2*len(body)+mostOwn) {
			return nil, false
		}
		value = append(value, from[:length]...)
		if n&1 == 0 {
			rest = rest[length:]
		}
	}
	return value, sumOf(value) == sum
}

// source is what the values of edits and insertions are made of, in one request.
type source struct {
	v      *wire.View
	blocks []wire.Block
	bodies []byte // of all blocks up to and with one
	upTo   int
}

func newSource(v *wire.View) *source { return &source{v: v, blocks: v.MessageBlocks()} }

// body is what an edit of a block is made of.
func (s *source) body(i int) []byte { return s.v.Bytes(s.blocks[i].Body) }

// all is what an insertion at a block is made of: it brings back what stood in front.
func (s *source) all(i int) []byte {
	for ; s.upTo <= i; s.upTo++ {
		s.bodies = append(s.bodies, s.body(s.upTo)...)
	}
	return s.bodies
}

// describe makes the recipes of the edits and insertions that have none, while
// their blocks can be read. The session must be locked.
func describe(v *wire.View, states []State) {
	from := newSource(v)
	for i := range states[:min(len(states), len(from.blocks))] {
		if e := states[i].Edit; e != nil && e.recipe == nil && len(e.Value) > 0 {
			e.recipe = newRecipe(e.Value, from.body(i))
		}
		if w := states[i].Inserted; w != nil {
			for j := range w.Inserts {
				if in := &w.Inserts[j]; in.recipe == nil {
					in.recipe = newRecipe(in.Value, from.all(i))
				}
			}
		}
	}
}

// resolve makes the values of edits and insertions that were restored, as far as a
// request holds their blocks. What cannot be made is forgotten. The session must be
// locked.
func (l *Lineage) resolve(v *wire.View, common int) {
	from := newSource(v)
	for i := range l.States[:min(common, len(l.States))] {
		s := &l.States[i]
		if e := s.Edit; e != nil && e.Value == nil && e.recipe != nil {
			s.Edit = nil
			if value, ok := cook(e.recipe, from.body(i)); ok {
				s.Edit = &Edit{Stage: e.Stage, Op: e.Op, Value: value, recipe: e.recipe}
			}
		}
		if w := s.Inserted; w != nil && w.Inserts[0].Value == nil {
			s.Inserted = w.resolve(from.all(i))
		}
	}
}

func (w *Inserted) resolve(body []byte) *Inserted {
	out := &Inserted{Inserts: make([]Insert, len(w.Inserts))}
	for j, in := range w.Inserts {
		value, ok := cook(in.recipe, body)
		if !ok {
			return nil
		}
		out.Inserts[j] = Insert{Op: in.Op, Value: value, recipe: in.recipe}
	}
	return out
}
