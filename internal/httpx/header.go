// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"net/http"
	"strings"
)

// AskPlain requests an uncompressed response. The value is not shared, since later handlers may
// modify it.
func AskPlain(h http.Header) { h["Accept-Encoding"] = []string{"identity"} }

// ClonePlain returns a copy of a header that requests an uncompressed response.
func ClonePlain(h http.Header) http.Header {
	n := 1
	for _, v := range h {
		n += len(v)
	}
	values := append(make([]string, 0, n), "identity")
	out := make(http.Header, len(h)+1)
	for name, v := range h {
		if v == nil {
			out[name] = nil
			continue
		}
		from := len(values)
		values = append(values, v...)
		// The capacity is limited, so that an append cannot overwrite the next header.
		out[name] = values[from:len(values):len(values)]
	}
	out["Accept-Encoding"] = values[:1:1]
	return out
}

// AsksPlain reports whether a header requests an uncompressed response.
func AsksPlain(h http.Header) bool {
	v := h["Accept-Encoding"]
	return len(v) == 1 && v[0] == "identity"
}

// DropCoded removes the headers that describe a response's exact bytes.
func DropCoded(h http.Header) {
	for _, name := range [...]string{"Content-Length", "Content-Encoding", "Etag", "Content-Md5", "Digest"} {
		delete(h, name)
	}
}

// TakeTrailers removes the announced trailers from the header of a buffered response, and returns
// them.
func TakeTrailers(h http.Header) http.Header {
	taken := http.Header{}
	for _, list := range h["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if v, ok := h[name]; ok {
				taken[name] = v
				delete(h, name)
			}
		}
	}
	return taken
}
