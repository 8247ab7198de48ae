// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// Body is a request body with its edits. The edits are applied where the body is read, so that a small
// edit of a long body copies nothing. A Body is immutable.
type Body struct {
	// Raw has the bytes before the edits.
	Raw []byte

	cuts []Cut // in order, without overlaps
}

// NewBody returns a body with cuts, which it takes over. The cuts must not overlap.
func NewBody(raw []byte, cuts ...Cut) (*Body, error) {
	// A stable sort keeps the order of insertions at one position around a replacement there.
	slices.SortStableFunc(cuts, func(a, b Cut) int {
		if a.Start != b.Start {
			return int(a.Start) - int(b.Start)
		}
		return int(a.End) - int(b.End)
	})
	for i := 1; i < len(cuts); i++ {
		if cuts[i].Start < cuts[i-1].End {
			return nil, fmt.Errorf("%w: two edits overlap", ErrEdit)
		}
	}
	return &Body{raw, cuts}, nil
}

// With returns the body with more cuts of Raw, which must not overlap the others.
func (b *Body) With(cuts ...Cut) (*Body, error) {
	return NewBody(b.Raw, append(slices.Clip(b.cuts), cuts...)...)
}

// Parts returns the number of parts that make up the body, see [Body.Part].
func (b *Body) Parts() int { return 2*len(b.cuts) + 1 }

// Part returns the i-th part of the body: a span of Raw if i is even, the bytes of an edit if it is odd.
func (b *Body) Part(i int) []byte {
	if i%2 == 1 {
		return b.cuts[i/2].With
	}
	i /= 2
	start, end := 0, len(b.Raw)
	if i > 0 {
		start = int(b.cuts[i-1].End)
	}
	if i < len(b.cuts) {
		end = int(b.cuts[i].Start)
	}
	return b.Raw[start:end]
}

// Len returns the length of the body in bytes.
func (b *Body) Len() int {
	n := len(b.Raw)
	for i := range b.cuts {
		n += len(b.cuts[i].With) - int(b.cuts[i].End-b.cuts[i].Start)
	}
	return n
}

// Bytes returns the body in one piece: Raw itself without edits, else a copy, which may be passed to
// [reuse.Recycle] once it is no longer used.
func (b *Body) Bytes() []byte {
	if len(b.cuts) == 0 {
		return b.Raw
	}
	out := reuse.Buffer(b.Len())
	for i := range b.Parts() {
		out = append(out, b.Part(i)...)
	}
	return out
}

// Equal reports whether the body has these bytes.
func (b *Body) Equal(other []byte) bool {
	if b.Len() != len(other) {
		return false
	}
	for i := range b.Parts() {
		part := b.Part(i)
		if !bytes.Equal(part, other[:len(part)]) {
			return false
		}
		other = other[len(part):]
	}
	return true
}

// join returns a copy of raw with the cuts applied.
func join(raw []byte, cuts []Cut) ([]byte, error) {
	b, err := NewBody(raw, cuts...)
	if err != nil {
		return nil, err
	}
	if len(cuts) == 0 {
		return append(reuse.Buffer(len(raw)), raw...), nil
	}
	return b.Bytes(), nil
}
