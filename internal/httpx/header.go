// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"net/http"
	"strings"
)

// AskPlain asks for an answer that can be read. The value is the request's own:
// handlers behind may write into it.
func AskPlain(h http.Header) { h["Accept-Encoding"] = []string{"identity"} }

// ClonePlain returns a copy of a header that asks for such an answer.
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
		out[name] = values[from:len(values):len(values)]
	}
	out["Accept-Encoding"] = values[:1:1]
	return out
}

// AsksPlain reports whether such an answer was asked for.
func AsksPlain(h http.Header) bool {
	v := h["Accept-Encoding"]
	return len(v) == 1 && v[0] == "identity"
}

// DropCoded drops the headers that speak of an answer's own bytes.
func DropCoded(h http.Header) {
	for _, name := range [...]string{"Content-Length", "Content-Encoding", "Etag", "Content-Md5", "Digest"} {
		delete(h, name)
	}
}

// TakeTrailers takes out of a header that has waited for the end of its answer what
// was announced to come behind it.
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
