// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Hasher computes canonical block hashes. Its input is the block's section, role and kind, then the
// members in the order of the Member calls; callers leave cache_control out. A string content is
// hashed as one text block.
type Hasher struct {
	sum   hash.Hash
	buf   [sha256.Size]byte
	small [8]byte
}

// Begin starts the hash of a block.
func (c *Hasher) Begin(s Section, r Role, k Kind) {
	if c.sum == nil {
		c.sum = sha256.New()
	}
	c.sum.Reset()
	c.small[0], c.small[1], c.small[2] = byte(s), byte(r), byte(k)
	c.sum.Write(c.small[:3])
}

// Add writes b after its length.
func (c *Hasher) Add(b []byte) {
	// Without the lengths, different lists of strings could give the same input.
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
