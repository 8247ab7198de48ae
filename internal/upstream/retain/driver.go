// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package retain

import (
	"net/http"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Request is a request to an upstream that retains conversations.
type Request struct {
	// Body is the whole body to retain.
	Body []byte
	// Sums are the hashes of the body's pieces, set by the driver's Delta. Nil for drivers without
	// such hashes.
	Sums []wire.Hash
	// Bound is a hash of the properties bound to a handle besides the history: the model, the
	// tools, options. Zero for drivers with unbound handles.
	Bound wire.Hash
	// History has the hashes of the messages, in order. Nil for drivers that retain bytes.
	History []wire.Hash
	// View is the parsed Body or Plain. Nil for drivers that retain bytes.
	View *wire.View
	// Plain is the body without retaining, nil if it equals Body.
	Plain []byte
	// Continuation is the client's own delta, nil for a whole request.
	Continuation *Continuation
	// Lost reports that a handle has expired. Nil: no handle has. It must not call the engine.
	Lost func(handle string) bool
	// WritesEntry reports that the request writes a cache entry at a marker amid the retained history, which a delta
	// would leave out.
	WritesEntry bool
	// Last is the request with its last message only, for drivers that send it.
	Last []byte
	// Mark is the client's idempotency key, which identifies a retry; "" for none.
	Mark string
}

// Continuation is a client's own request that continues an answer.
type Continuation struct {
	// Handle is the continued answer's id.
	Handle string
	// Body is the request, Items its messages without the brackets.
	Body, Items []byte
}

// Base is the state retained by an upstream. It does not change while a turn continues it.
type Base struct {
	// Handle is the state's id at the upstream.
	Handle string
	// Request is the forwarded request.
	Request
	// Outcome is the answer, if the driver keeps it.
	Outcome *Outcome

	prior *Base // the request's own base, which may be continued once more
}

// Outcome is the answer to a request.
type Outcome struct {
	// Handle is the answer's id, Text its text.
	Handle, Text string
	// Mark is the request's idempotency key.
	Mark string
}

// goesBy reports whether a handle identifies the state or an earlier one of its line.
func (b *Base) goesBy(handle string) bool {
	return b.Handle == handle || b.prior != nil && b.prior.goesBy(handle)
}

// before returns the reason why the request does not begin with the state.
func (b *Base) before(r *Request) Cause {
	if b.Bound != r.Bound {
		return Bound
	}
	if len(b.History) > len(r.History) {
		return Diverged
	}
	for i := range b.History {
		if b.History[i] != r.History[i] {
			return Diverged
		}
	}
	return ""
}

// Driver is a mechanism by which upstreams retain conversations.
type Driver interface {
	// Name is the driver's name in metrics.
	Name() string
	// Once reports that a handle can be used once, and by one request at a time.
	Once() bool
	// Delta returns the body to send instead of the whole, nil for the whole. front is a lower
	// bound for the common prefix of base and request, in bytes. A nil base means that the upstream
	// has retained other states, but none of this conversation.
	Delta(base *Base, r *Request) (delta []byte, common int)
	// Dress sets the header fields that describe the body: the whole if sent is nil, else a delta
	// against base. The header is the request's own.
	Dress(h http.Header, k Key, base *Base, sent []byte)
	// Read interprets a response and removes the driver's fields from its header. The body is given
	// for a status of at least 400, else nil.
	Read(delta bool, status int, h http.Header, body []byte) Verdict
	// Hear returns an observer for a successful answer, a stream or one piece, if only the answer
	// tells the retained state. Nil if the header has told it.
	Hear(r *Request, stream bool) Ear
}

// Ear observes an answer on its way to the client.
type Ear interface {
	// Feed reads the next bytes, and returns the retained state once the answer is complete.
	Feed(p []byte) Verdict
}

// Verdict is the meaning of a response.
type Verdict struct {
	// Handle is the id of the newly retained state, "" for none.
	Handle string
	// History is the history of the state: the request's with the answer behind it. Nil: the
	// request's own.
	History []wire.Hash
	// Missed is the reason why a delta was not accepted, "" if it was.
	Missed Cause
	// Refused: the whole may have been refused because it asked to be retained.
	Refused bool
	// Reply is the answer in the form of the next request's messages.
	Reply []byte
	// Outcome is the answer, for drivers that repeat it on a client's retry.
	Outcome *Outcome
}

// Cause is the reason why a request is sent whole.
type Cause string

// Causes known to the engine. Drivers add the upstream's error codes.
const (
	// Unknown: no retained state is known.
	Unknown Cause = "new"
	// Bound: a property bound to the handle differs.
	Bound Cause = "bound"
	// Diverged: the history differs.
	Diverged Cause = "diverged"
	// InFlight: another request continues the same handle.
	InFlight Cause = "in_flight"
	// Lost: the holder of the state is gone, such as a connection.
	Lost Cause = "lost"
	// Larger: a delta would not be shorter.
	Larger Cause = "larger"
	// WritesEntry: the request writes a cache entry at a marker amid the retained history.
	WritesEntry Cause = "writes_entry"
	// Foreign: the response does not come from a server that retains conversations.
	Foreign Cause = "foreign"
	// Refused: the upstream has refused to retain the request.
	Refused Cause = "refused"
	// Cut: the connection broke off before a response.
	Cut Cause = "cut"
)
