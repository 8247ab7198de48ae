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
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
)

// outgoing returns the body of a request on its way upstream, decoded. It is not
// copied where it lies in memory already.
func (h *Handler) outgoing(r *http.Request) ([]byte, error) {
	var raw []byte
	if p, ok := r.Body.(*payloadReader); ok && p.at == 0 {
		if p.plain != nil || p.undone != nil {
			return p.plain, p.undone
		}
		raw = p.data
	} else if r.Body != nil {
		var err error
		if raw, err = io.ReadAll(io.LimitReader(r.Body, h.MaxBody+1)); err != nil {
			return nil, fmt.Errorf("reading request body: %w", err)
		}
		setBody(r, raw)
	}
	return decodeRequest(contentCoding(r.Header), raw, h.MaxBody, nil)
}

// replaceOutgoing puts a body in the place of the one that outgoing returned. The
// length is always told: some servers take no chunks. The returned function puts
// back what was there before, for error routes and a second pass.
func replaceOutgoing(r *http.Request, old, body []byte) (restore func()) {
	header, length, coding := r.Header, r.ContentLength, r.TransferEncoding
	before, getBody := r.Body, r.GetBody
	r.Header = maps.Clone(header)
	r.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
	delete(r.Header, "Content-Encoding")
	delete(r.Header, "Transfer-Encoding")
	r.ContentLength, r.TransferEncoding = int64(len(body)), nil
	p := &payload{data: body}
	p.attach(r)
	own := len(body) == 0 || len(old) == 0 || &old[0] != &body[0]
	return func() {
		r.Header, r.ContentLength, r.TransferEncoding = header, length, coding
		r.Body, r.GetBody = before, getBody
		if own {
			p.recycle()
		}
	}
}
