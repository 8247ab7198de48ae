// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package retain

import (
	"net/http"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Request is what is to be forwarded, in the terms in which upstreams hold things.
type Request struct {
	// Body is all of it.
	Body []byte
	// Sums are the hashes of its pieces, as the driver has made them in Delta. None for
	// drivers that compare nothing by them.
	Sums []wire.Hash
	// Bound is a hash of what a handle is bound to besides the history: the model, the
	// tools, options. Zero for drivers whose handles are bound to nothing.
	Bound wire.Hash
	// History are the hashes of its messages, in order. None for drivers that hold bytes.
	History []wire.Hash
	// View is what Body, or Plain, was read as. Nil for drivers that hold bytes.
	View *wire.View
	// Plain is the body as it goes where nothing is to be held of it, nil if that is Body.
	Plain []byte
	// Own is what the client has sent, if that was no more than what is new.
	Own *Own
	// Lost reports that a handle is known to stand for nothing any more. Nil: no handle
	// is. It must not call the engine.
	Lost func(handle string) bool
	// Last is the request with no more than its last message, for drivers that send that.
	Last []byte
	// Mark is the client's own name for the request, by which it is known when it comes
	// again; "" for none.
	Mark string
}

// Own is a client's own request that goes on from an answer.
type Own struct {
	// Handle is the answer's.
	Handle string
	// Body is the request, Items its messages without the brackets.
	Body, Items []byte
}

// Base is what an upstream holds. It does not change while a turn goes on from it.
type Base struct {
	// Handle is how the upstream knows it.
	Handle string
	// Request is what was forwarded.
	Request
	// Outcome is what it was answered, where a driver keeps that.
	Outcome *Outcome

	prior *Base // what the request went on from, and may once more
}

// Outcome is what a request was answered.
type Outcome struct {
	// Handle is the answer's, Text what it said.
	Handle, Text string
	// Mark is the client's own name for the request.
	Mark string
}

// goesBy reports whether a handle is that of what is held, or of what that went on from.
func (b *Base) goesBy(handle string) bool {
	return b.Handle == handle || b.prior != nil && b.prior.goesBy(handle)
}

// before reports why what is held is not what the request begins with, "" if it is.
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

// Driver is a way in which upstreams hold conversations.
type Driver interface {
	// Name is how it is called in metrics.
	Name() string
	// Once reports that a handle can be used once, and by one request at a time.
	Once() bool
	// Delta returns what is to be sent in place of the whole, nil if the whole is, and
	// how many bytes the base and the request begin with, at least. A base of nil says
	// that the upstream has held other things, but nothing of this.
	Delta(base *Base, r *Request) (delta []byte, front int)
	// Dress makes a request's header say what its body is: the whole if sent is nil, a
	// delta against base else. The header is the request's own.
	Dress(h http.Header, k Key, base *Base, sent []byte)
	// Read says what an answer means, and takes out of its header what is not for the
	// client. Of an answer from 400 on it is given the body, else nil.
	Read(delta bool, status int, h http.Header, body []byte) Verdict
	// Hear returns what listens to a good answer, be it a stream of events or in one
	// piece: where that alone tells what is held. Nil if the header has told it.
	Hear(r *Request, stream bool) Ear
}

// Ear listens to an answer on its way to the client.
type Ear interface {
	// Feed takes the next bytes, and says what is held once the answer is whole.
	Feed(p []byte) Verdict
}

// Verdict is what an answer means.
type Verdict struct {
	// Handle is by which the upstream holds the request from now on, "" for not at all.
	Handle string
	// History tells what else it holds: the request's history with the answer behind it.
	// Nil: the request's own.
	History []wire.Hash
	// Missed is why a delta was not taken, "" if it was.
	Missed Cause
	// Refused: the whole may have been refused since it asked to be held.
	Refused bool
	// Reply is the answer as it stands among the messages of the next request.
	Reply []byte
	// Outcome is the answer, for drivers that give it to a client that asks again.
	Outcome *Outcome
}

// Cause is why a request goes, or has to go, whole.
type Cause string

// Those that are known before a request is sent. Drivers add those that the upstream
// tells.
const (
	// Unknown: nothing is held, as far as is known.
	Unknown Cause = "new"
	// Bound: something that the handle is bound to differs.
	Bound Cause = "bound"
	// Diverged: the history is another one.
	Diverged Cause = "diverged"
	// InFlight: another request goes on from the same handle.
	InFlight Cause = "in_flight"
	// Lost: what it was held with is gone, such as a connection.
	Lost Cause = "lost"
	// Larger: a delta would not be shorter.
	Larger Cause = "larger"
	// Foreign: the answer is none of a server that holds anything.
	Foreign Cause = "foreign"
	// Refused: the upstream has refused to hold it.
	Refused Cause = "refused"
	// Cut: the connection broke off before there was an answer.
	Cut Cause = "cut"
)
