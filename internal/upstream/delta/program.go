// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

const (
	magic = "llm\x02"
	// plain and packed are the encodings of literals.
	plain, packed = 0, 1
	// fewest is the minimum size of literals worth compressing, in bytes.
	fewest = 128
	// decoderWindow bounds the memory of a decoder, as in RFC 9659.
	decoderWindow = 8 << 20
)

// Errors of decoding a program.
var (
	// ErrProgram says that the program is invalid or was written against another base.
	ErrProgram = errors.New("not a program for this base")
	// ErrHash says that the rebuilt body differs from the original.
	ErrHash = errors.New("the body is not the one that was meant")
	// ErrTooLarge says that the body would exceed the limit.
	ErrTooLarge = errors.New("the body is too large")
)

var packer = sync.OnceValue(func() *zstd.Encoder {
	// fails for bad options only
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithLowerEncoderMem(true))
	return e
})

// Append appends the program that builds body from base, which may be empty. body must be hashed
// with this seed. shared is the length of their common prefix.
func (s Seed) Append(dst []byte, base, body Text) (program []byte, shared int) {
	shared = commonPrefix(base, body)
	sum := s.sum(body)
	var few [16]step
	steps := match(few[:0], base.Body, body.Body, shared)
	dst = append(dst, magic...)
	dst = binary.AppendUvarint(dst, uint64(len(body.Body)))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s))
	dst = append(dst, sum[:]...)
	dst = binary.AppendUvarint(dst, uint64(len(base.Body)))
	dst = binary.AppendUvarint(dst, uint64(len(steps)))
	said := 0
	for _, s := range steps {
		if s.from < 0 {
			dst = binary.AppendUvarint(dst, uint64(s.len)<<1|1)
			said += s.len
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(s.len)<<1)
		dst = binary.AppendUvarint(dst, uint64(s.from))
	}
	return appendLiterals(dst, steps, body.Body, said), shared
}

func appendLiterals(dst []byte, steps []step, body []byte, said int) []byte {
	dst = binary.AppendUvarint(dst, uint64(said))
	all, at, one := make([]byte, 0, said), 0, len(steps) == 1
	for _, s := range steps {
		switch {
		case s.from >= 0:
		case one:
			// The body is one literal: no copy is needed.
			all = body
		default:
			all = append(all, body[at:at+s.len]...)
		}
		at += s.len
	}
	if said < fewest {
		return append(append(dst, plain), all...)
	}
	before := len(dst)
	dst = packer().EncodeAll(all, append(dst, packed))
	// Incompressible literals stay plain.
	if len(dst)-before > said {
		return append(append(dst[:before], plain), all...)
	}
	return dst
}

// Size returns the length of a program's body, as the program claims it.
func Size(program []byte) (int64, error) {
	r := reader{program}
	if !r.magic() {
		return 0, ErrProgram
	}
	n, ok := r.number(1 << 40)
	if !ok {
		return 0, ErrProgram
	}
	return int64(n), nil
}

// Make builds a program's body from a base. It returns [ErrTooLarge] for a body of more than limit bytes, and
// allocates no more than the body and a decoder's window.
func Make(base, program []byte, limit int64) ([]byte, error) {
	size, err := Size(program)
	if err != nil {
		return nil, err
	}
	// The claimed size is checked before any memory is allocated for it.
	if size > limit {
		return nil, ErrTooLarge
	}
	r := reader{program}
	r.magic()
	_, _ = r.number(int(size))
	seed, sum, ok := r.sum()
	if !ok {
		return nil, ErrProgram
	}
	if n, ok := r.number(len(base)); !ok || n != len(base) {
		return nil, ErrProgram
	}
	plan, said := r, 0
	// The first pass validates all steps. Storing the steps of a hostile program would take many
	// times the program's own memory.
	if err := r.steps(len(base), int(size), func(s step) {
		if s.from < 0 {
			said += s.len
		}
	}); err != nil {
		return nil, err
	}
	literals, err := r.literals(said)
	if err != nil {
		return nil, err
	}
	body := make([]byte, 0, size)
	_ = plan.steps(len(base), int(size), func(s step) { // validated above
		if s.from >= 0 {
			body = append(body, base[s.from:s.from+s.len]...)
			return
		}
		body = append(body, literals[:s.len]...)
		literals = literals[s.len:]
	})
	if seed.sum(seed.Text(body)) != sum {
		return nil, ErrHash
	}
	return body, nil
}

type reader struct{ rest []byte }

func (r *reader) magic() bool {
	rest, ok := bytes.CutPrefix(r.rest, []byte(magic))
	r.rest = rest
	return ok
}

func (r *reader) sum() (seed Seed, sum wire.Hash, ok bool) {
	if len(r.rest) < 8+len(sum) {
		return 0, sum, false
	}
	seed = Seed(binary.LittleEndian.Uint64(r.rest))
	r.rest = r.rest[8+copy(sum[:], r.rest[8:]):]
	return seed, sum, true
}

// number reads a number up to limit.
func (r *reader) number(limit int) (int, bool) {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > uint64(limit) {
		return 0, false
	}
	r.rest = r.rest[size:]
	return int(n), true
}

func (r *reader) steps(base, size int, do func(step)) error {
	count, ok := r.number(len(r.rest)) // each has a byte at least
	if !ok {
		return ErrProgram
	}
	left := size
	for range count {
		n, ok := r.number(left<<1 | 1)
		if !ok || n>>1 > left {
			return ErrProgram
		}
		s := step{-1, n >> 1}
		left -= s.len
		if n&1 == 0 {
			if s.from, ok = r.number(base); !ok || s.len > base-s.from {
				return ErrProgram
			}
		}
		do(s)
	}
	if left != 0 {
		return ErrProgram
	}
	return nil
}

var unpackers sync.Pool // of *zstd.Decoder

func (r *reader) literals(said int) ([]byte, error) {
	if n, ok := r.number(said); !ok || n != said || len(r.rest) == 0 {
		return nil, ErrProgram
	}
	coding, raw := r.rest[0], r.rest[1:]
	switch {
	case coding == plain && len(raw) == said:
		return raw, nil
	case coding != packed:
		return nil, ErrProgram
	}
	z, ok := unpackers.Get().(*zstd.Decoder)
	if !ok {
		var err error
		if z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(decoderWindow)); err != nil {
			return nil, fmt.Errorf("unpacking literals: %w", err)
		}
	}
	defer func() {
		_ = z.Reset(nil)
		unpackers.Put(z)
	}()
	if err := z.Reset(bytes.NewReader(raw)); err != nil {
		return nil, ErrProgram
	}
	out := make([]byte, said)
	if _, err := io.ReadFull(z, out); err != nil {
		return nil, ErrProgram
	}
	// The compressed literals must not be longer than claimed.
	var more [1]byte
	if n, err := z.Read(more[:]); n != 0 || !errors.Is(err, io.EOF) {
		return nil, ErrProgram
	}
	return out, nil
}
