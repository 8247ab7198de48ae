// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// A recipe tells how to make the value of an edit from the body of its block: pieces of the body,
// and our own bytes between them. So a snapshot contains no text of the client; that text returns
// with the client's next request.
//
// A recipe is the hash of the value, a byte for the kind of body, and the pieces in order. A piece
// begins with twice its length. Our own bytes follow as they are. A piece of the body has one more
// added to the number, and then its distance from the end of the last such piece.

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

const (
	// minPiece is the shortest piece that is searched in the whole body, and pieceStep the distance
	// between the places of a value at which the search is tried.
	minPiece, pieceStep = 24, 8
	// minNear is the shortest piece that is searched within near bytes after the last one. Most
	// edits only leave something out.
	minNear, near = 4, 256
	// MaxLiteralBytes bounds our own bytes in a value: a stub for each text that a call may contain. A
	// value with more may contain text that the client sent elsewhere, and is not kept.
	MaxLiteralBytes = 4 << 10
)

// none is the recipe of a value that cannot be made from its block.
var none = []byte{}

// A recipe refers to the body itself, or to the body without padding before line numbers, whichever
// is shorter. The byte after the hash tells which.
const (
	fromBody = iota
	fromUnpadded
)

// shortRecipe is the length up to which no shorter recipe is searched.
const shortRecipe = 64

// maxStep bounds the value made from a body, so that a damaged or foreign recipe cannot take
// any amount of memory.
func maxStep(body []byte) int { return 2*len(body) + MaxLiteralBytes }

// MakeRecipe makes the recipe of a value from the body of its block. The recipe is empty, but not
// nil, where the value has too many foreign bytes or repeats the body too often.
func MakeRecipe(value, body []byte) []byte {
	if len(value) > maxStep(body) {
		return none
	}
	head := binary.LittleEndian.AppendUint32(nil, sumOf(value))
	if len(value) < len(body) && isUnpadded(value, body) { // most long values
		return appendPiece(append(head, fromUnpadded), len(value), 0)
	}
	recipe := appendRecipe(append(slices.Clone(head), fromBody), value, body)
	if len(recipe) > 0 && len(recipe) <= shortRecipe {
		return recipe
	}
	if bare := unpadded(body); len(bare) < len(body) && len(value) <= maxStep(bare) {
		other := appendRecipe(append(head, fromUnpadded), value, bare)
		if len(other) > 0 && (len(recipe) == 0 || len(other) < len(recipe)) {
			return other
		}
	}
	return recipe
}

// unpadded removes the blanks before line numbers from a JSON string: tools show files with them,
// and admission removes them.
func unpadded(body []byte) []byte {
	out := make([]byte, 0, len(body))
	for piece := range unpaddedPieces(body) {
		out = append(out, piece...)
	}
	return out
}

// isUnpadded reports whether a value is the unpadded body.
func isUnpadded(value, body []byte) bool {
	for piece := range unpaddedPieces(body) {
		if !bytes.HasPrefix(value, piece) {
			return false
		}
		value = value[len(piece):]
	}
	return len(value) == 0
}

// unpaddedPieces yields the pieces of a body that make up the unpadded one.
func unpaddedPieces(body []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(body) > 0 && body[0] == '"' {
			if !yield(body[:1]) {
				return
			}
			body = body[1:]
		}
		for len(body) > 0 {
			rest := bytes.TrimLeft(body, " ")
			if len(rest) > 0 && (rest[0] < '0' || rest[0] > '9') {
				rest = body
			}
			end := rawjson.LineEnd(rest, 0)
			if !yield(rest[:end]) {
				return
			}
			body = rest[end:]
		}
	}
}

// appendRecipe appends the pieces of a recipe. It returns none where more than [MaxLiteralBytes] are
// not from the body.
func appendRecipe(out, value, body []byte) []byte {
	literal, copied, at, far := 0, 0, 0, 0 // copied: length of the value that is in the recipe
	for i := 0; i+minNear <= len(value); {
		// Search near the end of the last piece first: the distance is short, and so is the search.
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
		// Extend the match in both directions.
		from, to, end := i, n, i
		for from > copied && to > 0 && value[from-1] == body[to-1] {
			from, to = from-1, to-1
		}
		for ; end < len(value) && n < len(body) && value[end] == body[n]; end++ {
			n++
		}
		literal += from - copied
		out = appendLiteral(out, value[copied:from])
		out = appendPiece(out, end-from, to-at)
		i, copied, at = end, end, n
	}
	if literal += len(value) - copied; literal > MaxLiteralBytes {
		return none
	}
	return appendLiteral(out, value[copied:])
}

// appendPiece appends a piece of the body, by its length and its distance from the last one.
func appendPiece(out []byte, length, distance int) []byte {
	return binary.AppendVarint(binary.AppendUvarint(out, uint64(length)<<1|1), int64(distance))
}

func appendLiteral(out, literal []byte) []byte {
	if len(literal) == 0 {
		return out
	}
	return append(binary.AppendUvarint(out, uint64(len(literal))<<1), literal...)
}

func sumOf(value []byte) uint32 { return uint32(xxh3.Hash(value)) }

// CookRecipe makes the value of a recipe. It returns false if the recipe belongs to another body.
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
		// Both lengths come from input that may be damaged.
		if length > uint64(len(from)) || uint64(len(value))+length > uint64(maxStep(body)) {
			return nil, false
		}
		value = append(value, from[:length]...)
		if n&1 == 0 {
			rest = rest[length:]
		}
	}
	return value, sumOf(value) == sum
}
