// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
)

// Outgoing returns the decoded body of a request to the upstream, up to limit bytes. It does not
// copy a body that is in memory.
func Outgoing(r *http.Request, limit int64) ([]byte, error) {
	var raw []byte
	if p, ok := Whole(r); ok {
		if plain, undone := p.Plain(), p.Undone(); plain != nil || undone != nil {
			return plain, undone
		}
		raw = p.Data
	} else if r.Body != nil {
		var err error
		if raw, err = io.ReadAll(io.LimitReader(r.Body, limit+1)); err != nil {
			return nil, fmt.Errorf("reading request body: %w", err)
		}
		SetBody(r, raw)
	}
	return DecodeRequest(Coding(r.Header), raw, limit, nil)
}

// ReadAhead returns the encoded body of a request, up to limit bytes. After an error the next
// reader still gets the whole body.
func ReadAhead(r *http.Request, limit int64) ([]byte, error) {
	if p, ok := Whole(r); ok {
		return p.Data, nil
	}
	if r.Body == nil {
		return nil, nil
	}
	whole := r.Body
	raw, err := io.ReadAll(io.LimitReader(whole, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = ErrTooLarge
	}
	if err != nil {
		// Put the part that was read back in front of the rest.
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(raw), whole), whole}
		return nil, fmt.Errorf("reading request body: %w", err)
	}
	SetBody(r, raw)
	return raw, nil
}

// SwapBody replaces the body that [Outgoing] returned, and clones the header. The returned function
// restores the request, for the access log, error routes and a second pass.
func SwapBody(r *http.Request, old, body []byte) (restore func()) {
	header, length, coding := r.Header, r.ContentLength, r.TransferEncoding
	before, getBody := r.Body, r.GetBody
	r.Header = maps.Clone(header)
	SetLength(r, len(body))
	p := &Payload{Data: body}
	p.Attach(r)
	return func() {
		r.Header, r.ContentLength, r.TransferEncoding = header, length, coding
		r.Body, r.GetBody = before, getBody
		if !Same(old, body) {
			p.Recycle()
		}
	}
}

// SetLength describes a body of n bytes without content coding in a request, and modifies its
// header.
func SetLength(r *http.Request, n int) {
	r.Header["Content-Length"] = []string{strconv.Itoa(n)}
	delete(r.Header, "Content-Encoding")
	delete(r.Header, "Transfer-Encoding")
	r.ContentLength, r.TransferEncoding = int64(n), nil
}

// Same reports whether two bodies share their memory.
func Same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
