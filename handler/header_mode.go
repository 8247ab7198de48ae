// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"
	"strconv"
	"strings"
)

// HeaderMode is the set of headers about a request in its answer.
type HeaderMode string

// The modes.
const (
	// HeadersCompact puts the main values into one header.
	HeadersCompact HeaderMode = "compact"
	// HeadersFull has a header for each value.
	HeadersFull HeaderMode = "full"
	// HeadersOff has none.
	HeadersOff HeaderMode = "off"
)

// headerMode is the request header by which a client asks for all values.
const headerMode = "X-Llm-Cache-Headers"

// tellsAll reports whether the answer to a request tells all values, if any.
func (o *site) tellsAll(h http.Header) bool {
	return o.clients.headers == HeadersFull || len(h[headerMode]) > 0 && h[headerMode][0] == string(HeadersFull)
}

// headerBrief holds the main values in one structured field (RFC 9651), like Cache-Status (RFC 9211).
const headerBrief = "X-Llm-Cache"

// brief is the value of that header. The tokens that the upstream has read are known in
// answers in one piece only.
func (c *requestState) brief() string {
	var few [160]byte
	b := append(append(few[:0], c.ex.Policy...), `; session="`...)
	b = append(append(b, c.session.ID()...), '"')
	if model := c.site.records.billed(c.view.Model); model != "" && !strings.ContainsFunc(model, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		b = append(append(append(b, `; model="`...), model...), '"')
	}
	b = strconv.AppendInt(append(b, "; tokens="...), int64(c.sent()), 10)
	b = strconv.AppendInt(append(b, "; saved="...), int64(c.saved()), 10)
	if c.ending.turn != nil && c.ending.turn.Usage.Reported {
		b = strconv.AppendInt(append(b, "; read="...), c.ending.turn.Usage.Read, 10)
		if c.ending.estimated {
			b = append(b, "; estimated"...)
		}
	}
	if e := c.ex.Decision.Epoch; e != "" {
		b = append(append(b, "; epoch="...), e...)
	}
	if c.ending.resent {
		b = append(b, "; resent"...)
	}
	return string(b)
}
