// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"

	"github.com/klauspost/compress/zstd"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
)

// unpacker decodes a content coding piece by piece. Reader and feeder take turns in one goroutine.
type unpacker struct {
	next func() ([]byte, error, bool)
	stop func()

	packed []byte // fed and not yet read
	ended  bool   // no more input will follow
}

// errUnpackerStopped ends the decoding of an abandoned response.
var errUnpackerStopped = errors.New("the answer is given up")

// newUnpacker returns an unpacker for gzip or zstd, nil for others. The caller must stop it.
func newUnpacker(coding string) *unpacker {
	var open func(io.Reader) (io.Reader, error)
	switch coding {
	case "gzip":
		open = func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case "zstd":
		open = func(r io.Reader) (io.Reader, error) {
			return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxWindow(32<<20))
		}
	default:
		return nil
	}
	u := new(unpacker)
	u.next, u.stop = iter.Pull2(func(yield func([]byte, error) bool) {
		z, err := open(packedReader{u, yield})
		if err == nil {
			if d, ok := z.(*zstd.Decoder); ok {
				defer d.Close()
			}
			buf := make([]byte, 16<<10)
			for {
				var n int
				n, err = z.Read(buf)
				if n > 0 && !yield(buf[:n], nil) {
					return
				}
				if err != nil {
					break
				}
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, fmt.Errorf("decoding %s: %w", coding, err))
		}
	})
	return u
}

type packedReader struct {
	*unpacker
	yield func([]byte, error) bool
}

// Read implements io.Reader.
func (r packedReader) Read(p []byte) (int, error) {
	for len(r.packed) == 0 {
		if r.ended {
			return 0, io.EOF
		}
		// Yielding nothing asks for more input.
		if !r.yield(nil, nil) {
			return 0, errUnpackerStopped
		}
	}
	n := copy(p, r.packed)
	r.packed = r.packed[n:]
	return n, nil
}

// ReadByte implements io.ByteReader, with which decoders read no further than necessary.
func (r packedReader) ReadByte() (byte, error) {
	var b [1]byte
	_, err := r.Read(b[:])
	return b[0], err
}

func (u *unpacker) feed(p []byte, do func([]byte) error) error {
	u.packed = p
	for {
		out, err, ok := u.next()
		if err != nil || !ok || len(out) == 0 { // bytes behind the end are ignored
			u.packed = nil
			return err
		}
		if err := do(out); err != nil {
			return err
		}
	}
}

func (u *unpacker) end(do func([]byte) error) error {
	u.ended = true
	return u.feed(nil, do)
}

// unpacking decodes a response that arrives encoded despite the request.
type unpacking struct {
	next  caddyhttp.Handler
	first unpackedAnswer // most requests have one response only
}

// Unpack returns next behind the decoding layer.
func Unpack(next caddyhttp.Handler) caddyhttp.Handler { return &unpacking{next: next} }

// ServeHTTP implements caddyhttp.Handler. A response shorter than its Content-Length is cut.
func (u *unpacking) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	if !httpx.AsksPlain(r.Header) {
		return u.next.ServeHTTP(w, r)
	}
	a := &u.first
	if a.taken { // by the request before, as in a continuation
		a = new(unpackedAnswer)
	}
	a.taken = true
	a.Answer = httpx.NewAnswer(w, a)
	defer func() {
		if a.unpacker != nil {
			a.unpacker.stop()
		}
	}()
	cut := true
	defer func() {
		if cut {
			_ = a.asItCame()
		}
	}()
	err := u.next.ServeHTTP(a, r)
	if err == nil && a.left > 0 {
		// Layers above may change the length, so net/http would not notice the missing bytes.
		panic(http.ErrAbortHandler)
	}
	if err == nil && a.unpacker != nil {
		err = a.finish()
	}
	cut = false
	return err
}

const undecided = 64 << 10

// unpackedAnswer is the writer of a response with an unconfirmed coding.
type unpackedAnswer struct {
	httpx.Answer
	unpacker *unpacker // nil for a plain response
	buffered []byte    // bytes before the decision
	taken    bool      // in use
	clear    bool      // the header was sent
	left     int64     // missing bytes of the Content-Length
}

// Begin implements [httpx.Receiver].
func (a *unpackedAnswer) Begin(status int) {
	h := a.Header()
	if n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64); err == nil && status != http.StatusNoContent &&
		status != http.StatusNotModified {
		a.left = n // these two have no body
	}
	kind := httpx.MediaType(h.Get("Content-Type"))
	// Errors pass unmodified: their readers decode them whole.
	if coding := httpx.Coding(h); coding != "" && status/100 == 2 && (httpx.IsStream(kind) || httpx.IsJSON(kind)) {
		a.unpacker = newUnpacker(coding)
	}
	if a.unpacker == nil {
		a.begin()
	}
}

func (a *unpackedAnswer) begin() {
	a.clear = true
	a.Send()
}

// asItCame forwards the buffered bytes undecoded.
func (a *unpackedAnswer) asItCame() error {
	if a.Status == 0 || a.clear {
		return nil
	}
	a.unpacker.stop()
	a.unpacker = nil
	a.begin()
	return a.send(a.buffered)
}

// Buffering implements [httpx.Receiver].
func (a *unpackedAnswer) Buffering() bool { return !a.clear }

// Take implements [httpx.Receiver].
func (a *unpackedAnswer) Take(p []byte) (int, error) {
	if a.left > 0 {
		a.left = max(0, a.left-int64(len(p)))
	}
	if a.unpacker == nil {
		return a.ResponseWriter.Write(p)
	}
	if !a.clear {
		a.buffered = append(a.buffered, p...)
	}
	err := a.unpacker.feed(p, a.unpacked)
	switch {
	// Some gateways state a coding for plain bytes.
	case err != nil && !a.clear:
		err = a.asItCame()
	// So much input without an error is encoded, even if no output came yet.
	case err == nil && !a.clear && len(a.buffered) > undecided:
		a.decide()
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (a *unpackedAnswer) decide() {
	a.buffered = nil
	httpx.DropCoded(a.Header())
	a.begin()
}

func (a *unpackedAnswer) unpacked(p []byte) error {
	if !a.clear {
		a.decide()
	}
	return a.send(p)
}

func (a *unpackedAnswer) send(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := a.ResponseWriter.Write(p)
	return err
}

func (a *unpackedAnswer) finish() error {
	err := a.unpacker.end(a.unpacked)
	switch {
	case a.clear && err != nil:
		// A missing end means that the response was cut, and it stays cut.
		panic(http.ErrAbortHandler)
	case a.clear:
		return nil
	case err != nil:
		return a.asItCame()
	}
	a.decide() // an empty response
	return nil
}
