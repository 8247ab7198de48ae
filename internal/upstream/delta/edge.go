// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package delta

// Edge is the driver for an upstream that has llm_cache_origin in front of it,
// and the words that both sides use.
//
// An edge names itself in each request. An origin that understands it keeps the body and
// says under which handle. From then on the edge sends programs of package delta against
// that body, and the origin makes the body of them before anything else sees it. A server
// that is no origin never says that it keeps anything, and so never gets a program; and
// an answer to a program that does not say that the body was made of it counts for
// nothing.

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
)

// The header fields of both sides, in canonical form, and what they say.
const (
	// EdgeName is by which an edge calls itself. What an origin keeps for one edge is not
	// found by another.
	EdgeName = "Llm-Cache-Edge"
	// Conversation is by which an edge calls a conversation. An origin keeps the last
	// bodies of each.
	Conversation = "Llm-Cache-Conversation"
	// BaseHandle is the handle of what a program goes on from. None: from nothing.
	BaseHandle = "Llm-Cache-Base"
	// Held is the handle by which the origin keeps the body of the request.
	Held = "Llm-Cache-Held"
	// Delta is what became of a program: Made, or why nothing did, with the status 415.
	Delta = "Llm-Cache-Delta"

	// Coding is the content coding of a program.
	Coding = "llm-cache-delta"

	// Made: the body was made of it, and is what it said.
	Made = "made"
	// UnknownBase: the origin does not keep what it goes on from, or not for this edge
	// and tenant.
	UnknownBase = "unknown-base"
	// BadDelta: it is no program for that base.
	BadDelta = "bad-delta"
	// BadHash: it makes another body than it said.
	BadHash = "bad-hash"
	// NoRoom: there is no memory to make it in.
	NoRoom = "no-room"
	// TooLarge: it is larger than the origin makes any.
	TooLarge = "too-large"
)

var reasons = []string{UnknownBase, BadDelta, BadHash, NoRoom, TooLarge}

// headers is what a program costs besides itself, in bytes.
const headers = 128

// EdgeDriver writes programs for an origin.
type EdgeDriver struct {
	id   string
	seed Seed
}

// NewEdge returns a driver with a name of its own.
func NewEdge() *EdgeDriver { return &EdgeDriver{rand.Text(), NewSeed()} }

// Name implements [retain.Driver].
func (*EdgeDriver) Name() string { return retain.Origin }

// Once implements [retain.Driver]: an origin keeps a body for any number of requests.
func (*EdgeDriver) Once() bool { return false }

// Delta implements [retain.Driver].
func (d *EdgeDriver) Delta(base *retain.Base, r *retain.Request) (program []byte, front int) {
	var from Text
	if base != nil {
		from = Text{Body: base.Body, Sums: base.Sums}
	}
	to := d.seed.Text(r.Body)
	r.Sums = to.Sums
	program, front = d.seed.Append(make([]byte, 0, 4<<10), from, to)
	if len(program)+headers >= len(r.Body) {
		return nil, front
	}
	return program, front
}

// Dress implements [retain.Driver].
func (d *EdgeDriver) Dress(h http.Header, k retain.Key, base *retain.Base, sent []byte) {
	h[EdgeName] = []string{d.id}
	h[Conversation] = []string{strconv.FormatUint(xxh3.HashString(k.Session+string(k.Lineage[:])), 36)}
	delete(h, BaseHandle)
	if sent == nil {
		return
	}
	h["Content-Encoding"] = []string{Coding}
	h["Content-Length"] = []string{strconv.Itoa(len(sent))}
	if base != nil {
		h[BaseHandle] = []string{base.Handle}
	}
}

// Hear implements [retain.Driver].
func (*EdgeDriver) Hear(*retain.Request, bool) retain.Ear { return nil }

// Read implements [retain.Driver].
func (*EdgeDriver) Read(sent bool, _ int, h http.Header, _ []byte) (v retain.Verdict) {
	what := h.Get(Delta)
	if sent && what != Made {
		if v.Missed = retain.Foreign; slices.Contains(reasons, what) {
			v.Missed = retain.Cause(what)
		}
	} else {
		v.Handle = h.Get(Held)
	}
	delete(h, Held)
	delete(h, Delta)
	return v
}
