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
)

var errTooLarge = errors.New("body too large")

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

// readBody reads the whole body as it was sent, up to limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	buf, err := readAll(http.MaxBytesReader(w, r.Body, limit), max(r.ContentLength, 511))
	if err == nil {
		return buf, nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(limit)
	}
	return nil, caddyhttp.Error(http.StatusBadRequest, fmt.Errorf("reading request body: %w", err))
}

// readAll is io.ReadAll for what is expected to be of that size.
func readAll(r io.Reader, size int64) ([]byte, error) {
	size++ // to meet the end without growing
	buf := wire.Buffer(int(min(size, firstBuffer)))
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
		if len(buf) < cap(buf) {
			continue
		}
		if n := min(int(size), growth*len(buf)); n > len(buf) {
			old := buf
			buf = append(wire.Buffer(n), old...)
			wire.Recycle(old)
		} else {
			buf = append(buf, 0)[:len(buf)]
		}
	}
}

// decodeBody undoes a content coding. What decodes to more than limit bytes is
// errTooLarge; what does not decode is another error.
func decodeBody(coding string, raw []byte, limit int64) ([]byte, error) {
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
		z, err := zstd.NewReader(bytes.NewReader(raw), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(32<<20))
		if err != nil {
			return nil, fmt.Errorf("decoding zstd: %w", err)
		}
		defer z.Close()
		r = z
	default:
		return nil, fmt.Errorf("decoding %q: unknown coding", coding)
	}
	buf, err := readAll(io.LimitReader(r, limit+1), min(int64(len(raw))*4, limit))
	if err != nil {
		return nil, fmt.Errorf("decoding %s: %w", coding, err)
	}
	if int64(len(buf)) > limit {
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
