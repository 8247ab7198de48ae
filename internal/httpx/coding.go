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

// Coding returns the one content coding of a message, "" for none.
// Several codings yield a name that nothing matches.
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

// MediaType returns the media type of a Content-Type, "?" for one that is none.
func MediaType(contentType string) string {
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

// IsStream reports whether a media type says that what it names is a stream of events.
func IsStream(mediaType string) bool {
	return mediaType == "text/event-stream" || mediaType == "application/vnd.amazon.eventstream"
}

// IsJSON reports whether a media type says that what it names is JSON.
func IsJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}

// Begins reports whether an answer that was only white space begins with these bytes.
func Begins(p []byte) bool { return len(bytes.TrimSpace(p)) > 0 }

// IsDocument reports whether what an answer begins with is that of a JSON object, whatever
// its Content-Type: no line of a stream of events begins so.
func IsDocument(p []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(p), []byte{'{'}) }

// DecodeRequest undoes the content coding of a request. What decodes to more than limit
// bytes is ErrTooLarge; what decodes to more than maxRatio times of what was sent and
// to more than freeRatio is ErrBomb. Conversations shrink to a fifth, logs that say one
// thing over and over to a hundredth.
func DecodeRequest(coding string, raw []byte, limit int64, pay Toll) ([]byte, error) {
	most := min(limit, max(freeRatio, maxRatio*int64(len(raw))))
	body, err := Decode(coding, raw, most, pay)
	if most < limit && errors.Is(err, ErrTooLarge) {
		return nil, ErrBomb
	}
	return body, err
}

// Decode undoes a content coding. What decodes to more than limit bytes is
// ErrTooLarge; what does not decode is another error.
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
