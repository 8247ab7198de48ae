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

// Outgoing returns the body of a request on its way upstream, decoded, up to limit
// bytes. It is not copied where it lies in memory already.
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

// ReadAhead returns the body of a request in the bytes in which it goes out, up to limit
// bytes. Where there is an error, the body is as it was for whoever reads it next.
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
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(raw), whole), whole}
		return nil, fmt.Errorf("reading request body: %w", err)
	}
	SetBody(r, raw)
	return raw, nil
}

// ReplaceOutgoing puts a body in the place of the one that [Outgoing] returned. The
// length is always told: some servers take no chunks. The returned function puts
// back what was there before, for error routes and a second pass.
func ReplaceOutgoing(r *http.Request, old, body []byte) (restore func()) {
	header, length, coding := r.Header, r.ContentLength, r.TransferEncoding
	before, getBody := r.Body, r.GetBody
	r.Header = maps.Clone(header)
	r.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
	delete(r.Header, "Content-Encoding")
	delete(r.Header, "Transfer-Encoding")
	r.ContentLength, r.TransferEncoding = int64(len(body)), nil
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

// Same reports whether two bodies are one.
func Same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
