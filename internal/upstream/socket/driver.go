// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"crypto/sha256"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/threads"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Header fields between driver and carrier. Neither the upstream nor the client gets them.
const (
	// from requests a connection. Its value is the id of the answer to continue, "" for none.
	from = "Llm-Cache-Socket"
	// became is the outcome in the response: the reason for a failure, or posted.
	became = "Llm-Cache-Socket-Became"
	// posted marks the response to a POST.
	posted = "posted"
)

// Driver retains conversations in WebSocket connections to the provider.
type Driver struct{ *threads.Driver }

// NewDriver returns a driver.
func NewDriver() Driver { return Driver{threads.NewDriver(wire.OpenAIResponses)} }

// Name implements [retain.Driver].
func (Driver) Name() string { return retain.WebSocket }

// Once implements [retain.Driver]: a connection keeps only its last answer.
func (Driver) Once() bool { return true }

// Request returns the request to retain for a body, nil for none. v is the parsed body, nil if
// unknown.
func (p *Pool) Request(body []byte, v *wire.View) *retain.Request {
	r := threads.Request(wire.OpenAIResponses, body, v, nil)
	// A connection replaces neither storage at the provider nor answers in the background.
	if r == nil || !r.View.Conversation.Stateless || gjson.GetBytes(body, "background").Bool() {
		return nil
	}
	r.Bound, r.Plain, r.Lost = bound(body), body, p.lost
	return r
}

var free = map[string]bool{
	"input": true, "stream": true, "stream_options": true, "metadata": true, "client_metadata": true,
	"max_output_tokens": true,
}

// bound returns a hash of all other members.
func bound(body []byte) (out wire.Hash) {
	h := sha256.New()
	for m := rawjson.Walk(body, 0); m.Next(); {
		key := m.Key
		value := m.Skip()
		if m.Bad {
			break
		}
		// After a change the whole conversation is sent, as the provider's own clients do.
		if !free[string(key)] {
			h.Write(key)
			h.Write([]byte{0})
			h.Write(value.Of(body))
			h.Write([]byte{0})
		}
	}
	copy(out[:], h.Sum(nil))
	return out
}

// Delta implements [retain.Driver].
func (Driver) Delta(base *retain.Base, r *retain.Request) (delta []byte, common int) {
	if base == nil || len(base.History) >= len(r.History) {
		return nil, 0
	}
	messages := r.View.Messages
	tail := rawjson.Span{Start: messages[len(base.History)].Span.Start, End: messages[len(messages)-1].Span.End}.Of(r.Body)
	delta, err := wire.Patch(r.Body,
		wire.Member{Name: "input", Value: append(append([]byte{'['}, tail...), ']')},
		wire.Member{Name: "previous_response_id", Value: rawjson.Quote(base.Handle)})
	if err != nil || len(delta) >= len(r.Body) {
		return nil, 0
	}
	return delta, 0
}

// Dress implements [retain.Driver].
func (Driver) Dress(h http.Header, _ retain.Key, base *retain.Base, _ []byte) {
	handle := ""
	if base != nil {
		handle = base.Handle
	}
	h[from] = []string{handle}
}

// Read implements [retain.Driver]. A request that a connection refuses may still succeed as POST.
func (d Driver) Read(delta bool, status int, h http.Header, body []byte) (v retain.Verdict) {
	switch what := h.Get(became); what {
	case "":
		v = d.Driver.Read(delta, status, h, body)
	case posted:
	default:
		v.Missed = retain.Cause(what)
	}
	delete(h, became)
	return v
}
