// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Hasher computes canonical block hashes. What goes in: where and as what
// the block stands, then its members in the order given, without cache_control.
// A string content goes in as the one text block that it means.
type Hasher struct {
	sum   hash.Hash
	buf   [sha256.Size]byte
	small [8]byte
}

// Begin begins the hash of a block.
func (c *Hasher) Begin(s Section, r Role, k Kind) {
	if c.sum == nil {
		c.sum = sha256.New()
	}
	c.sum.Reset()
	c.small[0], c.small[1], c.small[2] = byte(s), byte(r), byte(k)
	c.sum.Write(c.small[:3])
}

// Add writes a byte string in front of its length, so that no two lists of
// strings give the same input.
func (c *Hasher) Add(b []byte) {
	binary.LittleEndian.PutUint64(c.small[:], uint64(len(b)))
	c.sum.Write(c.small[:])
	c.sum.Write(b)
}

// Member adds a member of an object.
func (c *Hasher) Member(key, value []byte) {
	c.Add(key)
	c.Add(value)
}

// Sum returns the hash.
func (c *Hasher) Sum() Hash {
	return Hash(c.sum.Sum(c.buf[:0])[:len(Hash{})])
}
