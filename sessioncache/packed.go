// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// The compact encoding of numbers, words and times in snapshots.

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// PackedWriter appends values to Out.
type PackedWriter struct {
	// Out is the encoded data.
	Out []byte

	names []string // words written so far, a handful
	few   [8]string
}

// Uint writes a number, smaller ones in fewer bytes.
func (w *PackedWriter) Uint(n uint64) { w.Out = binary.AppendUvarint(w.Out, n) }

// Int writes a number of either sign.
func (w *PackedWriter) Int(n int64) { w.Out = binary.AppendVarint(w.Out, n) }

// Fixed writes a number in eight bytes.
func (w *PackedWriter) Fixed(n uint64) { w.Out = binary.LittleEndian.AppendUint64(w.Out, n) }

// Bool writes a boolean in one byte.
func (w *PackedWriter) Bool(b bool) {
	n := byte(0)
	if b {
		n = 1
	}
	w.Out = append(w.Out, n)
}

// Float writes a number, in one byte if it is zero.
func (w *PackedWriter) Float(x float64) {
	if w.Bool(x != 0); x != 0 {
		w.Fixed(math.Float64bits(x))
	}
}

// Bytes writes a length and the bytes.
func (w *PackedWriter) Bytes(b []byte) {
	w.Uint(uint64(len(b)))
	w.Out = append(w.Out, b...)
}

// Text writes a text as Bytes does.
func (w *PackedWriter) Text(s string) {
	w.Uint(uint64(len(s)))
	w.Out = append(w.Out, s...)
}

// Name writes a word that may repeat: its number, or zero and the word.
func (w *PackedWriter) Name(s string) {
	n := slices.Index(w.names, s) + 1
	w.Uint(uint64(n))
	if n > 0 {
		return
	}
	if w.names == nil {
		w.names = w.few[:0]
	}
	w.names = append(w.names, s)
	w.Text(s)
}

// Hash writes a hash, in one byte if it is zero.
func (w *PackedWriter) Hash(h wire.Hash) {
	if w.Bool(!h.IsZero()); !h.IsZero() {
		w.Out = append(w.Out, h[:]...)
	}
}

// Time writes a time as the difference from another. An unset time takes one byte.
func (w *PackedWriter) Time(t, since time.Time) {
	if w.Bool(!t.IsZero()); t.IsZero() {
		return
	}
	n := t.UnixNano()
	if !since.IsZero() {
		n -= since.UnixNano()
	}
	w.Int(n)
}

// PackedReader reads the output of a [PackedWriter]. After invalid input the reader is bad, and all
// further reads return zero.
type PackedReader struct {
	// In is the remaining input.
	In []byte
	// Bad reports whether the input was invalid.
	Bad bool

	names []string
}

// Fail makes the reader bad.
func (r *PackedReader) Fail() { r.Bad, r.In = true, nil }

// Uint is the inverse of [PackedWriter.Uint].
func (r *PackedReader) Uint() uint64 {
	n, k := binary.Uvarint(r.In)
	if k <= 0 {
		r.Fail()
		return 0
	}
	r.In = r.In[k:]
	return n
}

// Int is the inverse of [PackedWriter.Int].
func (r *PackedReader) Int() int64 {
	n, k := binary.Varint(r.In)
	if k <= 0 {
		r.Fail()
		return 0
	}
	r.In = r.In[k:]
	return n
}

// Small reads a number that must not exceed most.
func (r *PackedReader) Small(maxValue uint64) int {
	n := r.Uint()
	if n > maxValue {
		r.Fail()
		return 0
	}
	return int(n)
}

// Count reads a number of elements, each of which takes at least so many bytes.
func (r *PackedReader) Count(bytes int) int {
	n := r.Uint()
	// Reject a number that would make the caller allocate more than the input can fill.
	if n > uint64(len(r.In)/bytes) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Take reads n bytes.
func (r *PackedReader) Take(n int) []byte {
	if n > len(r.In) {
		r.Fail()
		return nil
	}
	b := r.In[:n:n]
	r.In = r.In[n:]
	return b
}

// Fixed is the inverse of [PackedWriter.Fixed].
func (r *PackedReader) Fixed() uint64 {
	b := r.Take(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// Bool is the inverse of [PackedWriter.Bool].
func (r *PackedReader) Bool() bool {
	b := r.Take(1)
	if b == nil || b[0] > 1 {
		r.Fail()
		return false
	}
	return b[0] == 1
}

// Float is the inverse of [PackedWriter.Float]. It rejects NaN and infinities.
func (r *PackedReader) Float() float64 {
	if !r.Bool() {
		return 0
	}
	x := math.Float64frombits(r.Fixed())
	if math.IsNaN(x) || math.IsInf(x, 0) {
		r.Fail()
		return 0
	}
	return x
}

// Bytes is the inverse of [PackedWriter.Bytes]. The result is a part of the input.
func (r *PackedReader) Bytes() []byte { return r.Take(r.Count(1)) }

// Text is the inverse of [PackedWriter.Text].
func (r *PackedReader) Text() string { return string(r.Bytes()) }

// Name is the inverse of [PackedWriter.Name].
func (r *PackedReader) Name() string {
	n := r.Small(uint64(len(r.names)))
	if n > 0 {
		return r.names[n-1]
	}
	s := r.Text()
	r.names = append(r.names, s)
	return s
}

// Hash is the inverse of [PackedWriter.Hash].
func (r *PackedReader) Hash() (h wire.Hash) {
	if r.Bool() {
		copy(h[:], r.Take(len(h)))
	}
	return h
}

// Time is the inverse of [PackedWriter.Time].
func (r *PackedReader) Time(since time.Time) time.Time {
	if !r.Bool() {
		return time.Time{}
	}
	n := r.Int()
	if !since.IsZero() {
		n += since.UnixNano()
	}
	return time.Unix(0, n)
}
