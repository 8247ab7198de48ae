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

// unpacker undoes a content coding piece by piece, as an answer comes. Reading
// and being fed take turns in one goroutine: the reader asks for more by handing
// over nothing.
type unpacker struct {
	next func() ([]byte, error, bool)
	stop func()

	packed []byte // what was fed and not read yet
	ended  bool   // nothing more will be fed
}

// errUnpackerStopped ends the reading of an answer that nobody waits for any more.
var errUnpackerStopped = errors.New("the answer is given up")

// newUnpacker returns an unpacker for gzip or zstd, nil for any other coding. It
// must be stopped.
func newUnpacker(coding string) *unpacker {
	var open func(io.Reader) (io.Reader, error)
	switch coding {
	case "gzip":
		open = func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case "zstd":
		open = func(r io.Reader) (io.Reader, error) {
			return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(32<<20))
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

// packedReader reads what is fed.
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
		if !r.yield(nil, nil) {
			return 0, errUnpackerStopped
		}
	}
	n := copy(p, r.packed)
	r.packed = r.packed[n:]
	return n, nil
}

// ReadByte implements io.ByteReader: readers that have it read no further than
// they must.
func (r packedReader) ReadByte() (byte, error) {
	var b [1]byte
	_, err := r.Read(b[:])
	return b[0], err
}

// feed unpacks the next bytes, of which do gets what comes out.
func (u *unpacker) feed(p []byte, do func([]byte) error) error {
	u.packed = p
	for {
		out, err, ok := u.next()
		if err != nil || !ok || len(out) == 0 { // what follows the end is nobody's
			u.packed = nil
			return err
		}
		if err := do(out); err != nil {
			return err
		}
	}
}

// end unpacks what is left. It is an error if the end is missing.
func (u *unpacker) end(do func([]byte) error) error {
	u.ended = true
	return u.feed(nil, do)
}

// unpacking is the layer next to the upstream: an answer of a model that comes
// packed though it was asked not to is unpacked event by event, for the client and
// for all that look at it on the way.
type unpacking struct {
	next  caddyhttp.Handler
	first unpackedAnswer // most requests have no other
}

// Unpack returns next with the unpacking before it.
func Unpack(next caddyhttp.Handler) caddyhttp.Handler { return &unpacking{next: next} }

// ServeHTTP implements caddyhttp.Handler. An answer shorter than it said it would be
// is cut, whoever made it: what stands in front may give it another length.
func (u *unpacking) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	if !httpx.AsksPlain(r.Header) {
		return u.next.ServeHTTP(w, r)
	}
	a := &u.first
	if a.taken { // by the request before, as where an answer goes on
		a = new(unpackedAnswer)
	}
	a.taken = true
	a.Answer = httpx.NewAnswer(w, a)
	defer a.stop()
	cut := true
	defer func() {
		if cut {
			_ = a.asItCame()
		}
	}()
	err := u.next.ServeHTTP(a, r)
	if err == nil {
		err = a.finish()
	}
	cut = false
	return err
}

// undecided bounds what is kept of an answer, in bytes, until it is clear that it is
// packed as it says.
const undecided = 64 << 10

// unpackedAnswer is the writer of an answer that may be packed. Whether it is, its
// first bytes tell; until then the client has nothing of it.
type unpackedAnswer struct {
	httpx.Answer
	unpacker *unpacker // nil if it is not
	held     []byte    // what came before it was clear
	taken    bool      // somebody has it
	clear    bool      // the header is gone
	left     int64     // how much is missing of the length that its header gives
}

// Begin implements [httpx.Interceptor]. An error is left as it is: who wants to know
// what it says unpacks it whole.
func (a *unpackedAnswer) Begin(status int) {
	h := a.Header()
	if n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64); err == nil && hasBody(status) {
		a.left = n
	}
	kind := httpx.MediaType(h.Get("Content-Type"))
	if status/100 == 2 && (httpx.IsStream(kind) || httpx.IsJSON(kind)) {
		a.unpacker = newUnpacker(httpx.Coding(h))
	}
	if a.unpacker == nil {
		a.begin()
	}
}

// hasBody reports whether an answer of that status may have a body.
func hasBody(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}

func (a *unpackedAnswer) begin() {
	a.clear = true
	a.Send()
}

// asItCame passes an answer on that turned out not to be packed, or was cut before
// that was clear.
func (a *unpackedAnswer) asItCame() error {
	if a.Status == 0 || a.clear {
		return nil
	}
	a.stop()
	a.unpacker = nil
	a.begin()
	return a.send(a.held)
}

// Holds implements [httpx.Interceptor].
func (a *unpackedAnswer) Holds() bool { return !a.clear }

// Take implements [httpx.Interceptor].
func (a *unpackedAnswer) Take(p []byte) (int, error) {
	if a.left > 0 {
		a.left = max(0, a.left-int64(len(p)))
	}
	if a.unpacker == nil {
		return a.ResponseWriter.Write(p)
	}
	if !a.clear {
		a.held = append(a.held, p...)
	}
	err := a.unpacker.feed(p, a.unpacked)
	switch {
	case err != nil && !a.clear:
		err = a.asItCame()
	case err == nil && !a.clear && len(a.held) > undecided:
		a.decide()
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// decide says that the answer is packed.
func (a *unpackedAnswer) decide() {
	a.held = nil
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

// finish ends an answer. One that lacks its end was cut, and stays so.
func (a *unpackedAnswer) finish() error {
	if a.left > 0 {
		panic(http.ErrAbortHandler)
	}
	if a.unpacker == nil {
		return nil
	}
	err := a.unpacker.end(a.unpacked)
	switch {
	case a.clear && err != nil:
		panic(http.ErrAbortHandler)
	case a.clear:
		return nil
	case err != nil:
		return a.asItCame()
	}
	a.decide() // there is nothing in it
	return nil
}

func (a *unpackedAnswer) stop() {
	if a.unpacker != nil {
		a.unpacker.stop()
	}
}
