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
	// FirstBuffer bounds the memory allocated by Content-Length before the first byte.
	FirstBuffer = 256 << 10
	// secondBuffer bounds the memory allocated once the first buffer is full. Most bodies of agents
	// are then read without a further copy.
	secondBuffer = 2 << 20
	// Growth bounds further allocations, as a multiple of the bytes received.
	Growth = 4
	// maxRatio and freeRatio bound the decoded size of a request.
	maxRatio  = 200
	freeRatio = 4 << 20
	// ZstdWindow bounds the memory of a decoder in addition to its output: RFC 8878 recommends 8
	// MiB, and HTTP allows no more (RFC 9659).
	ZstdWindow = 8 << 20
)

var (
	// ErrTooLarge reports a body that exceeds its limit.
	ErrTooLarge = errors.New("body too large")
	// ErrBomb reports a body that decodes to far more than any conversation does.
	ErrBomb = errors.New("the body decodes to more than 200 times its size")
	// ErrNoRoom reports that the memory for bodies is in use, and stayed so.
	ErrNoRoom = errors.New("no room for another body")
)

func tooLarge(limit int64) error {
	return caddyhttp.Error(http.StatusRequestEntityTooLarge, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit))
}

// Toll is called before the memory of a body grows. came is the number of bytes received, has the
// memory in use, and room the memory needed. Nil allows all growth.
type Toll func(came, has, room int) error

// Read reads the whole encoded body, up to limit bytes. If pay fails, Read returns the bytes read
// so far and the error.
func Read(w http.ResponseWriter, r *http.Request, limit int64, pay Toll) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength <= 0 { // the server itself enforces a Content-Length
		r.Body = http.MaxBytesReader(w, r.Body, limit)
	}
	buf, err := readAll(r.Body, max(r.ContentLength, 511), limit, pay)
	if err == nil || errors.Is(err, ErrNoRoom) {
		return buf, err
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(e.Limit) // an earlier request_body may have a lower limit
	}
	if errors.Is(err, ErrTooLarge) {
		return nil, tooLarge(limit)
	}
	return nil, caddyhttp.Error(http.StatusBadRequest, fmt.Errorf("reading request body: %w", err))
}

// readAll is io.ReadAll for a body of the expected size, with a limit. Earlier handlers can have
// changed the body, so that the size may be wrong.
func readAll(r io.Reader, size, limit int64, pay Toll) ([]byte, error) {
	size++ // room to reach EOF without growing
	var buf []byte
	// A client can declare any length and then send nothing.
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
