// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// Recipe says how the value of an edit is made of the body of its block: pieces of
// the body, and what we have put between them. So a snapshot holds none of what the
// client has written: it comes back with the client's next request.
//
// It is the hash of the value and its pieces in order: twice the length, and one more
// for a piece of the body, with how far behind the last such piece it begins; or the
// bytes themselves.

import (
	"bytes"
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

const (
	// minPiece is the shortest piece of a body that is looked for anywhere, and
	// pieceStep how far apart the places of a value are at which it is.
	minPiece, pieceStep = 24, 8
	// minNear is the shortest piece that is looked for right behind the last one,
	// within near bytes: most edits leave something out.
	minNear, near = 4, 256
	// MaxOwnBytes is how many bytes of a value may be our own: as long as a stub, for each
	// of the texts that a call may hold. What is less like its block than that may hold
	// text that the client has sent elsewhere, and is not kept.
	MaxOwnBytes = 4 << 10
)

// none is that of a value which cannot be made so.
var none = []byte{}

// A recipe is made from the body as it stands, or without the blanks in front of line
// numbers, whichever is shorter. It says so in the byte behind the hash.
const (
	fromBody = iota
	fromUnpadded
)

// shortRecipe is so short that none is looked for that is shorter.
const shortRecipe = 64

// longestStep is how long a value may be that a body makes, lest a recipe that is damaged, or
// somebody else's, takes any amount of memory.
func longestStep(body []byte) int { return 2*len(body) + MaxOwnBytes }

// MakeRecipe makes the recipe of a value from the body of its block. It is empty, but not nil,
// where the value holds too much that is not of the body, or the body too many times.
func MakeRecipe(value, body []byte) []byte {
	if len(value) > longestStep(body) {
		return none
	}
	recipe := appendRecipe(append(binary.LittleEndian.AppendUint32(nil, sumOf(value)), fromBody), value, body)
	if len(recipe) > 0 && len(recipe) <= shortRecipe {
		return recipe
	}
	if bare := unpadded(body); len(bare) < len(body) && len(value) <= longestStep(bare) {
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

// appendRecipe appends the pieces of a recipe. It returns none where they would
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
	if own += len(value) - copied; own > MaxOwnBytes {
		return none
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

// CookRecipe makes the value of a recipe. It reports false if the body is another one than
// the recipe is for.
func CookRecipe(recipe, body []byte) ([]byte, bool) {
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
		if length > uint64(len(from)) || uint64(len(value))+length > uint64(longestStep(body)) {
			return nil, false
		}
		value = append(value, from[:length]...)
		if n&1 == 0 {
			rest = rest[length:]
		}
	}
	return value, sumOf(value) == sum
}
