// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package threads

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Beta is the value of Anthropic-Beta for threads.
const Beta = "message-threads-2026-08-12"

var create = []byte(`{"type":"create"}`)

// lists maps the formats of providers that retain conversations to the name of the list of
// messages.
var lists = map[wire.Format]string{wire.Anthropic: "messages", wire.OpenAIResponses: "input"}

// Kept reports whether providers retain conversations of a format.
func Kept(f wire.Format) bool { return lists[f] != "" }

// Driver continues conversations retained by the provider.
type Driver struct{ format wire.Format }

// NewDriver returns a driver for a format that is [Kept].
func NewDriver(f wire.Format) *Driver { return &Driver{f} }

// Name implements [retain.Driver].
func (d *Driver) Name() string {
	if d.format.Traits().Threads {
		return retain.Threads
	}
	return retain.Responses
}

// Once implements [retain.Driver]: a thread's answer can be continued once, a stored response any
// number of times.
func (d *Driver) Once() bool { return d.format.Traits().Threads }

// Request returns the request to retain for a body, nil for an invalid body. v is the parsed body,
// nil if unknown; own is the client's own delta, nil for none. A request that does not ask for a
// thread gets one.
func Request(f wire.Format, body []byte, v *wire.View, continuation *retain.Continuation) *retain.Request {
	if v == nil || len(v.Raw) == 0 || len(body) == 0 || &v.Raw[0] != &body[0] {
		var err error
		if v, err = wire.Parse(f, body, nil); err != nil {
			return nil
		}
	}
	if v.Conversation.Partial || len(v.Messages) == 0 {
		return nil
	}
	all := f.Traits().Threads && v.Conversation.Thread.Empty()
	r := &retain.Request{
		Body: body, View: v, Continuation: continuation, Bound: bound(v),
		History: history(v, all || !f.Traits().Threads),
	}
	if all {
		var err error
		if r.Body, err = wire.Patch(body, wire.Member{Name: "thread", Value: create}); err != nil {
			return nil
		}
		r.Plain = body
	}
	return r
}

var free = map[string]bool{
	"messages": true, "system": true, "tools": true, "thread": true, "stream": true, "max_tokens": true, "metadata": true,
	"diagnostics": true, "cache_control": true,
}

// bound returns a hash of the properties bound to a thread.
func bound(v *wire.View) (out wire.Hash) {
	// Stored responses have no bound properties.
	if !v.Traits().Threads {
		return out
	}
	h := sha256.New()
	for m := rawjson.Walk(v.Raw, 0); m.Next(); {
		key := m.Key
		value := m.Skip()
		if m.Bad {
			break
		}
		if !free[string(key)] {
			h.Write(key)
			h.Write([]byte{0})
			h.Write(value.Of(v.Raw))
			h.Write([]byte{0})
		}
	}
	// Blocks' hashes ignore markers, which may move.
	for i := range v.Blocks[:v.System] {
		h.Write(v.Blocks[i].Hash[:])
	}
	copy(out[:], h.Sum(nil))
	return out
}

// lookBack is the number of blocks before a marker in which the provider looks for a cache entry,
// reduced by a margin for blocks that it counts differently.
const lookBack = 16

// Delta implements [retain.Driver].
func (d *Driver) Delta(base *retain.Base, r *retain.Request) (delta []byte, common int) {
	if base == nil || len(base.History) >= len(r.History) {
		return nil, 0
	}
	from := len(base.History)
	if r.Continuation == nil && !reaches(r.View, from) {
		return nil, 0
	}
	tail := rawjson.Span{Start: r.View.Messages[from].Span.Start, End: list(r.View).End}.Of(r.View.Raw)
	members := []wire.Member{{Name: lists[d.format], Value: append(append([]byte{'['}, tail...), ']')}}
	of := r.Body
	switch {
	case r.Continuation == nil:
		members = append(members, wire.Member{Name: "system"}, wire.Member{Name: "tools"})
	case r.Continuation.Handle == base.Handle && bytes.Equal(r.Continuation.Items, tail):
		return bytes.Clone(r.Continuation.Body), 0
	default:
		of = r.Continuation.Body
	}
	handle := rawjson.Quote(base.Handle)
	if d.format.Traits().Threads {
		members = append(members, wire.Member{
			Name:  "thread",
			Value: append(append([]byte(`{"type":"continue","previous_message_id":`), handle...), '}'),
		})
	} else {
		members = append(members, wire.Member{Name: "previous_response_id", Value: handle})
	}
	delta, err := wire.Patch(of, members...)
	if err != nil || len(delta) >= len(r.Body) {
		return nil, 0
	}
	return delta, 0
}

// reaches reports whether the provider finds the cache entry without the markers before a message.
func reaches(v *wire.View, from int) bool {
	first, marked := int(v.Messages[from].First), -1
	for i := range v.Blocks {
		if !v.Blocks[i].Marker.Empty() {
			marked = i
		}
	}
	if !v.Caching.AutoMarker.Empty() {
		marked = len(v.Blocks) - 1
	}
	// A later marker must be close enough to look back.
	return marked < 0 || marked >= first && marked-int(v.Messages[max(from-1, 0)].First) <= lookBack
}

// Dress implements [retain.Driver].
func (d *Driver) Dress(h http.Header, _ retain.Key, _ *retain.Base, _ []byte) {
	const name = "Anthropic-Beta"
	if !d.format.Traits().Threads {
		return
	}
	for _, line := range h[name] {
		if strings.Contains(line, Beta) {
			return
		}
	}
	h[name] = append(h[name][:len(h[name]):len(h[name])], Beta)
}

// Read implements [retain.Driver].
func (d *Driver) Read(delta bool, status int, _ http.Header, body []byte) (v retain.Verdict) {
	if status != http.StatusBadRequest && status != http.StatusNotFound && status != http.StatusUnprocessableEntity {
		return v
	}
	e := gjson.GetBytes(body, "error")
	code := e.Get("details.error_code").Str
	// Threads and stored responses have their codes in different members.
	if !d.format.Traits().Threads {
		code = e.Get("code").Str
	}
	// A refusal of a thread may not apply to a request without one.
	if !delta {
		v.Refused = true
		return v
	}
	// Known codes send the whole conversation; the metrics tell them apart.
	if v.Missed = retain.Refused; misses[code] {
		v.Missed = retain.Cause(code)
	}
	return v
}

var misses = map[string]bool{
	"thread_not_found": true, "thread_already_continued": true, "thread_continue_in_flight": true,
	"thread_fingerprint_mismatch": true,
	"thread_unsupported_request":  true, "previous_response_not_found": true,
}
