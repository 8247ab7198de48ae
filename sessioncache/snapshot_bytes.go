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
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// snapshotWriter writes the parts of a snapshot.
type snapshotWriter struct {
	out   []byte
	names map[string]uint64 // words that were written, by their numbers
	edits map[*Edit]uint64
}

func (w *snapshotWriter) uint(n uint64)  { w.out = binary.AppendUvarint(w.out, n) }
func (w *snapshotWriter) int(n int64)    { w.out = binary.AppendVarint(w.out, n) }
func (w *snapshotWriter) fixed(n uint64) { w.out = binary.LittleEndian.AppendUint64(w.out, n) }

func (w *snapshotWriter) bool(b bool) {
	n := byte(0)
	if b {
		n = 1
	}
	w.out = append(w.out, n)
}

// float writes a zero, which most are, in one byte.
func (w *snapshotWriter) float(x float64) {
	if w.bool(x != 0); x != 0 {
		w.fixed(math.Float64bits(x))
	}
}

func (w *snapshotWriter) bytes(b []byte) {
	w.uint(uint64(len(b)))
	w.out = append(w.out, b...)
}

func (w *snapshotWriter) text(s string) {
	w.uint(uint64(len(s)))
	w.out = append(w.out, s...)
}

// name writes a word that may come again: its number, or zero and the word.
func (w *snapshotWriter) name(s string) {
	n, known := w.names[s]
	w.uint(n)
	if known {
		return
	}
	w.names[s] = uint64(len(w.names) + 1)
	w.text(s)
}

func (w *snapshotWriter) hash(h wire.Hash) {
	if w.bool(!h.IsZero()); !h.IsZero() {
		w.out = append(w.out, h[:]...)
	}
}

// time writes a moment as the time since another; one that is not set is told apart.
func (w *snapshotWriter) time(t, since time.Time) {
	if w.bool(!t.IsZero()); t.IsZero() {
		return
	}
	n := t.UnixNano()
	if !since.IsZero() {
		n -= since.UnixNano()
	}
	w.int(n)
}

// The reasons why a snapshot is not read.
var (
	// ErrSnapshot says that it is damaged.
	ErrSnapshot = errors.New("damaged snapshot")
	// ErrNewer says that a newer program has written it.
	ErrNewer = errors.New("snapshot of a newer program")
)

// snapshotReader reads what a snapshotWriter has written. Once it has met what cannot
// be, it is bad, and all that it reads is zero.
type snapshotReader struct {
	in    []byte
	bad   bool
	names []string
	edits []*Edit
}

func (r *snapshotReader) fail() { r.bad, r.in = true, nil }

func (r *snapshotReader) uint() uint64 {
	n, k := binary.Uvarint(r.in)
	if k <= 0 {
		r.fail()
		return 0
	}
	r.in = r.in[k:]
	return n
}

func (r *snapshotReader) int() int64 {
	n, k := binary.Varint(r.in)
	if k <= 0 {
		r.fail()
		return 0
	}
	r.in = r.in[k:]
	return n
}

// small reads a number that must be at most so much.
func (r *snapshotReader) small(most uint64) int {
	n := r.uint()
	if n > most {
		r.fail()
		return 0
	}
	return int(n)
}

// count reads a number of things each of which takes so many bytes or more.
func (r *snapshotReader) count(bytes int) int {
	n := r.uint()
	if n > uint64(len(r.in)/bytes) {
		r.fail()
		return 0
	}
	return int(n)
}

// take reads so many bytes.
func (r *snapshotReader) take(n int) []byte {
	if n > len(r.in) {
		r.fail()
		return nil
	}
	b := r.in[:n:n]
	r.in = r.in[n:]
	return b
}

func (r *snapshotReader) fixed() uint64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (r *snapshotReader) bool() bool {
	b := r.take(1)
	if b == nil || b[0] > 1 {
		r.fail()
		return false
	}
	return b[0] == 1
}

func (r *snapshotReader) float() float64 {
	if !r.bool() {
		return 0
	}
	x := math.Float64frombits(r.fixed())
	if math.IsNaN(x) || math.IsInf(x, 0) {
		r.fail()
		return 0
	}
	return x
}

func (r *snapshotReader) bytes() []byte { return r.take(r.count(1)) }
func (r *snapshotReader) text() string  { return string(r.bytes()) }

func (r *snapshotReader) name() string {
	n := r.small(uint64(len(r.names)))
	if n > 0 {
		return r.names[n-1]
	}
	s := r.text()
	r.names = append(r.names, s)
	return s
}

func (r *snapshotReader) hash() (h wire.Hash) {
	if r.bool() {
		copy(h[:], r.take(len(h)))
	}
	return h
}

func (r *snapshotReader) time(since time.Time) time.Time {
	if !r.bool() {
		return time.Time{}
	}
	n := r.int()
	if !since.IsZero() {
		n += since.UnixNano()
	}
	return time.Unix(0, n)
}
