// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

const (
	// FirstBuffer bounds what a Content-Length makes us allocate before a byte
	// has come.
	FirstBuffer = 256 << 10
	// secondBuffer bounds what it makes us allocate once that is full: most bodies of agents
	// are read without being copied again.
	secondBuffer = 2 << 20
	// Growth bounds what it makes us allocate for each byte that has come beyond.
	Growth = 4
	// maxRatio and freeRatio bound what a request may decode to.
	maxRatio  = 200
	freeRatio = 4 << 20
	// ZstdWindow bounds the memory that a decoder takes besides what it writes: RFC 8878
	// asks for 8 MiB, and HTTP allows no more (RFC 9659).
	ZstdWindow = 8 << 20
)

var (
	// ErrTooLarge says that a body has more bytes than it may have.
	ErrTooLarge = errors.New("body too large")
	// ErrBomb says that a body decodes to far more than any conversation does.
	ErrBomb = errors.New("the body decodes to more than 200 times its size")
	// ErrNoRoom says that the memory for bodies is taken, and stayed so.
	ErrNoRoom = errors.New("no room for another body")
)

func tooLarge(limit int64) error {
	return caddyhttp.Error(http.StatusRequestEntityTooLarge, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit))
}

// Toll is asked before the memory of a body grows. came is how many bytes of it have
// come, has what it takes so far, room what it is about to take. Nil asks nothing.
type Toll func(came, has, room int) error

// Read reads the whole body as it was sent, up to limit bytes. Where the toll
// cannot be paid, it returns what it has read, and the error.
func Read(w http.ResponseWriter, r *http.Request, limit int64, pay Toll) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength <= 0 { // the server lets nothing through beyond a length
		r.Body = http.MaxBytesReader(w, r.Body, limit)
	}
	buf, err := readAll(r.Body, max(r.ContentLength, 511), limit, pay)
	if err == nil || errors.Is(err, ErrNoRoom) {
		return buf, err
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(e.Limit) // a request_body in front may have a lower one
	}
	if errors.Is(err, ErrTooLarge) {
		return nil, tooLarge(limit)
	}
	return nil, caddyhttp.Error(http.StatusBadRequest, fmt.Errorf("reading request body: %w", err))
}

// readAll is io.ReadAll for what is expected to be of that size and may not be larger than
// limit: a handler in front can have made the body another.
func readAll(r io.Reader, size, limit int64, pay Toll) ([]byte, error) {
	size++ // to meet the end without growing
	var buf []byte
	room := int(min(size, FirstBuffer))
	for {
		if len(buf) == cap(buf) && len(buf) > 0 {
			if room = 2 * len(buf); int64(len(buf)) < size {
				room = int(min(size, max(secondBuffer, Growth*int64(len(buf)))))
			}
		}
		if pay != nil {
			if err := pay(len(buf), cap(buf), room); err != nil {
				return buf, err
			}
		}
		if room > cap(buf) {
			old := buf
			buf = append(reuse.Buffer(room), old...)
			reuse.Recycle(old)
			room = cap(buf)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return buf, ErrTooLarge
		}
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
}
