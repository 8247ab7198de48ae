// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

type step struct {
	from int // offset in the base, -1 for a literal
	len  int
}

const (
	// stride is the distance of the indexed windows in the base, in bytes.
	stride = 32
	// window is the length of an indexed window, in bytes. A common text shorter than stride and
	// window together may be missed.
	window = 32
	// chunk is the number of bytes compared at once.
	chunk = 4 << 10
	// prime is the base of the rolling hash.
	prime = 0x9e3779b97f4a7c15
)

// match returns the steps that build body from base. Both begin with common equal bytes.
func match(steps []step, base, body []byte, common int) []step {
	back := suffix(base[common:], body[common:])
	steps = put(steps, 0, common)
	steps = between(steps, base[common:len(base)-back], body[common:len(body)-back], common)
	return put(steps, len(base)-back, back)
}

func put(steps []step, from, n int) []step {
	if n == 0 {
		return steps
	}
	return append(steps, step{from, n})
}

func prefix(a, b []byte) int {
	n, i := min(len(a), len(b)), 0
	for i+chunk <= n && bytes.Equal(a[i:i+chunk], b[i:i+chunk]) {
		i += chunk
	}
	for ; i+8 <= n; i += 8 {
		// The first differing byte of the word is the lowest one that is not zero.
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

func suffix(a, b []byte) int {
	n := min(len(a), len(b))
	a, b = a[len(a)-n:], b[len(b)-n:]
	i := n
	for i >= chunk && bytes.Equal(a[i-chunk:i], b[i-chunk:i]) {
		i -= chunk
	}
	for ; i >= 8; i -= 8 {
		if x := binary.LittleEndian.Uint64(a[i-8:]) ^ binary.LittleEndian.Uint64(b[i-8:]); x != 0 {
			return n - i + bits.LeadingZeros64(x)/8
		}
	}
	for i > 0 && a[i-1] == b[i-1] {
		i--
	}
	return n - i
}

// between appends the steps for the middle of the body. at is the offset of old in the base.
func between(steps []step, old, body []byte, at int) []step {
	if len(old) < window || len(body) < window {
		return put(steps, -1, len(body))
	}
	places := newIndex(old)
	said, i := 0, 0 // end of the encoded part; start of the window
	sum := hash(body[:window])
	// The window only moves forward, so each byte is read a bounded number of times, for any input.
	for {
		if from, ok := places.find(sum, old, body[i:i+window]); ok {
			from, i := grow(old, body, from, i, said)
			n := prefix(old[from:], body[i:])
			steps = put(put(steps, -1, i-said), at+from, n)
			said = i + n
		}
		if i = max(i+1, said); i+window > len(body) {
			return put(steps, -1, len(body)-said)
		}
		if i == said {
			// The window jumped over a match, so its hash does not roll.
			sum = hash(body[i : i+window])
		} else {
			sum = (sum-uint64(body[i-1])*leaving)*prime + uint64(body[i+window-1])
		}
	}
}

func grow(old, body []byte, from, i, said int) (int, int) {
	// Only every stride-th window is indexed, so a match usually begins earlier.
	for from > 0 && i > said && old[from-1] == body[i-1] {
		from, i = from-1, i-1
	}
	return from, i
}

// leaving is the hash's weight of a byte that leaves the window.
var leaving = func() uint64 {
	p := uint64(1)
	for range window - 1 {
		p *= prime
	}
	return p
}()

func hash(b []byte) (sum uint64) {
	for _, c := range b {
		sum = sum*prime + uint64(c)
	}
	return sum
}

type index struct {
	shift int
	at    []int32 // offset of a window plus 1, 0 for none
}

func newIndex(text []byte) index {
	n := len(text)/stride + 1
	size := bits.Len(uint(2 * n))
	x := index{shift: 64 - size, at: make([]int32, 1<<size)}
	for i := 0; i+window <= len(text); i += stride {
		// The first window of a hash wins; a collision costs compression, never correctness.
		if slot := x.slot(hash(text[i : i+window])); *slot == 0 {
			*slot = int32(i + 1)
		}
	}
	return x
}

func (x *index) slot(sum uint64) *int32 { return &x.at[sum*prime>>x.shift] }

func (x *index) find(sum uint64, text, b []byte) (int, bool) {
	i := int(*x.slot(sum)) - 1
	return i, i >= 0 && bytes.Equal(text[i:i+window], b)
}
