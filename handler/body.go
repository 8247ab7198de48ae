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

package handler

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

const (
	// firstBuffer bounds what a Content-Length makes us allocate before a byte
	// has come.
	firstBuffer = 256 << 10
	// growth bounds what it makes us allocate for each byte that has.
	growth = 8
	// maxRatio and freeRatio bound what a request may decode to.
	maxRatio  = 200
	freeRatio = 4 << 20
	// zstdWindow bounds the memory that a decoder takes besides what it writes: RFC 8878
	// asks for 8 MiB, and HTTP allows no more (RFC 9659).
	zstdWindow = 8 << 20
)

var (
	errTooLarge = errors.New("body too large")
	errBomb     = errors.New("the body decodes to more than 200 times its size")
)

func tooLarge(limit int64) error {
	return caddyhttp.Error(http.StatusRequestEntityTooLarge, fmt.Errorf("%w: more than %d bytes", errTooLarge, limit))
}

// unreadable returns why a request's headers say that its body is none that
// this handler reads, or "".
func unreadable(h http.Header) string {
	switch contentCoding(h) {
	case "", "gzip", "zstd":
	default:
		return reasonEncoding
	}
	ct := h.Get("Content-Type")
	if ct != "" && !isJSON(mediaType(ct)) {
		return reasonContentType
	}
	return ""
}

// contentCoding returns the one content coding of a message, "" for none.
// Several codings yield a name that nothing matches.
func contentCoding(h http.Header) string {
	v := h["Content-Encoding"]
	if len(v) == 0 {
		return ""
	}
	coding := strings.ToLower(strings.TrimSpace(strings.Join(v, ",")))
	if coding == "identity" {
		return ""
	}
	return coding
}

func mediaType(contentType string) string {
	switch contentType { // as nearly all say it
	case "application/json", "text/event-stream":
		return contentType
	case "application/json; charset=utf-8":
		return "application/json"
	case "text/event-stream; charset=utf-8":
		return "text/event-stream"
	}
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "?"
	}
	return t
}

func isJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}

// toll is asked before the memory of a body grows. has is what it takes so far, room
// what it is about to take. Nil asks nothing.
type toll func(has, room int) error

// readBody reads the whole body as it was sent, up to limit bytes. Where the toll
// cannot be paid, it returns what it has read, and the error.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, pay toll) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	buf, err := readAll(r.Body, max(r.ContentLength, 511), pay)
	if err == nil || errors.Is(err, errNoRoom) {
		return buf, err
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(limit)
	}
	return nil, caddyhttp.Error(http.StatusBadRequest, fmt.Errorf("reading request body: %w", err))
}

// readAll is io.ReadAll for what is expected to be of that size.
func readAll(r io.Reader, size int64, pay toll) ([]byte, error) {
	size++ // to meet the end without growing
	var buf []byte
	room := int(min(size, firstBuffer))
	for {
		if len(buf) == cap(buf) && len(buf) > 0 {
			if room = 2 * len(buf); int64(len(buf)) < size {
				room = int(min(size, growth*int64(len(buf))))
			}
		}
		if pay != nil {
			if err := pay(cap(buf), room); err != nil {
				return buf, err
			}
		}
		if room > cap(buf) {
			old := buf
			buf = append(wire.Buffer(room), old...)
			wire.Recycle(old)
			room = cap(buf)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
}

// decodeRequest undoes the content coding of a request. What decodes to more than limit
// bytes is errTooLarge; what decodes to more than maxRatio times of what was sent and
// to more than freeRatio is errBomb. Conversations shrink to a fifth, logs that say one
// thing over and over to a hundredth.
func decodeRequest(coding string, raw []byte, limit int64, pay toll) ([]byte, error) {
	most := min(limit, max(freeRatio, maxRatio*int64(len(raw))))
	body, err := decodeBody(coding, raw, most, pay)
	if most < limit && errors.Is(err, errTooLarge) {
		return nil, errBomb
	}
	return body, err
}

// decodeBody undoes a content coding. What decodes to more than limit bytes is
// errTooLarge; what does not decode is another error.
func decodeBody(coding string, raw []byte, limit int64, pay toll) ([]byte, error) {
	var r io.Reader
	switch coding {
	case "":
		return raw, nil
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("decoding gzip: %w", err)
		}
		r = z
	case "zstd":
		z, err := zstd.NewReader(bytes.NewReader(raw), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, fmt.Errorf("decoding zstd: %w", err)
		}
		defer z.Close()
		r = z
	default:
		return nil, fmt.Errorf("decoding %q: unknown coding", coding)
	}
	buf, err := readAll(io.LimitReader(r, limit+1), min(int64(len(raw))*4, limit), pay)
	if err != nil {
		wire.Recycle(buf)
		return nil, fmt.Errorf("decoding %s: %w", coding, err)
	}
	if int64(len(buf)) > limit {
		wire.Recycle(buf)
		return nil, tooLarge(limit)
	}
	return buf, nil
}

// setBody makes body the request's, to be read again as often as a transport
// needs it for a safe retry.
func setBody(r *http.Request, body []byte) {
	if len(body) == 0 {
		r.Body, r.GetBody = http.NoBody, nil
		return
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body = io.NopCloser(bytes.NewReader(body))
}
