// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

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

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// Coding returns the content coding of a message, "" for none. Several codings yield a name that
// matches none.
func Coding(h http.Header) string {
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

// MediaType returns the media type of a Content-Type, "?" for an invalid one.
func MediaType(contentType string) string {
	switch contentType { // the usual spellings
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

// IsStream reports whether a media type is a stream of events.
func IsStream(mediaType string) bool {
	return mediaType == "text/event-stream" || mediaType == "application/vnd.amazon.eventstream"
}

// IsJSON reports whether a media type is JSON.
func IsJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}

// Begins reports whether a response, only white space so far, begins with these bytes.
func Begins(p []byte) bool { return len(bytes.TrimSpace(p)) > 0 }

// IsDocument reports whether a response begins like a JSON object, regardless of its Content-Type.
// No line of an event stream begins so.
func IsDocument(p []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(p), []byte{'{'}) }

// DecodeRequest removes the content coding of a request. It returns ErrTooLarge beyond limit bytes,
// and ErrBomb beyond both maxRatio times the encoded size and freeRatio.
func DecodeRequest(coding string, raw []byte, limit int64, pay Toll) ([]byte, error) {
	// Conversations compress to a fifth, repetitive logs to a hundredth.
	most := min(limit, max(freeRatio, maxRatio*int64(len(raw))))
	body, err := Decode(coding, raw, most, pay)
	if most < limit && errors.Is(err, ErrTooLarge) {
		return nil, ErrBomb
	}
	return body, err
}

// Decode removes a content coding. It returns ErrTooLarge beyond limit bytes.
func Decode(coding string, raw []byte, limit int64, pay Toll) ([]byte, error) {
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
		z, err := zstd.NewReader(bytes.NewReader(raw), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(ZstdWindow))
		if err != nil {
			return nil, fmt.Errorf("decoding zstd: %w", err)
		}
		defer z.Close()
		r = z
	default:
		return nil, fmt.Errorf("decoding %q: unknown coding", coding)
	}
	// One byte beyond the limit shows that the body is too long.
	buf, err := readAll(io.LimitReader(r, limit+1), min(int64(len(raw))*4, limit), limit+1, pay)
	if err != nil {
		reuse.Recycle(buf)
		return nil, fmt.Errorf("decoding %s: %w", coding, err)
	}
	if int64(len(buf)) > limit {
		reuse.Recycle(buf)
		return nil, tooLarge(limit)
	}
	return buf, nil
}
