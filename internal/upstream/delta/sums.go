// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// piece is the number of bytes per hash, equal on both sides.
const piece = 64 << 10

// Seed makes hashes unpredictable, so that authors of content cannot produce collisions.
type Seed uint64

// NewSeed returns a random seed.
func NewSeed() Seed {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return Seed(binary.LittleEndian.Uint64(b[:]))
}

// Text is a body and the hashes of its pieces, in order. Without hashes, texts are compared byte by
// byte.
type Text struct {
	Body []byte
	Sums []wire.Hash
}

// Text hashes the pieces of a body.
func (s Seed) Text(body []byte) Text {
	sums := make([]wire.Hash, 0, (len(body)+piece-1)/piece)
	for rest := body; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
		sums = append(sums, xxh3.Hash128Seed(rest[:min(piece, len(rest))], uint64(s)).Bytes())
	}
	return Text{body, sums}
}

func (s Seed) sum(t Text) wire.Hash {
	all := make([]byte, 0, len(t.Sums)*len(wire.Hash{}))
	for i := range t.Sums {
		all = append(all, t.Sums[i][:]...)
	}
	return xxh3.Hash128Seed(all, uint64(s)).Bytes()
}

func commonPrefix(base, body Text) int {
	n := 0
	// Equal hashes skip whole pieces, so only the bytes around the first difference are read.
	for n < min(len(base.Sums), len(body.Sums)) && base.Sums[n] == body.Sums[n] {
		n++
	}
	n = min(n*piece, len(base.Body), len(body.Body))
	return n + prefix(base.Body[n:], body.Body[n:])
}
