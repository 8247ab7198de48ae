// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package delta

// Edge is the driver for an upstream behind llm_cache_origin, and the header fields of both sides.
//
// An edge names itself in each request. An origin that understands the request keeps the body and
// returns its handle. From then on, the edge sends programs of package delta against that body, and
// the origin rebuilds the body before any other handler runs. A server that is not an origin never
// returns a handle, and so never gets a program. A response to a program counts only if it confirms
// that the body was rebuilt.
// nothing.

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
)

// The header fields of both sides, in canonical form, and their values.
const (
	// EdgeName is the edge's name. The bodies kept for one edge are invisible to another.
	EdgeName = "Llm-Cache-Edge"
	// Conversation is the edge's name for a conversation. An origin keeps the last bodies of each.
	Conversation = "Llm-Cache-Conversation"
	// BaseHandle is the handle of the program's base. Absent: no base.
	BaseHandle = "Llm-Cache-Base"
	// Handle is the handle under which the origin keeps the request's body.
	Handle = "Llm-Cache-Handle"
	// Delta is the outcome of a program: Made, or a reason for failure, with the status 415.
	Delta = "Llm-Cache-Delta"

	// Coding is the content coding of a program.
	Coding = "llm-cache-delta"

	// Made: the body was rebuilt and has the expected hash.
	Made = "made"
	// UnknownBase: the origin does not keep the base, or not for this edge and tenant.
	UnknownBase = "unknown-base"
	// BadDelta: the program is invalid for this base.
	BadDelta = "bad-delta"
	// BadHash: the rebuilt body has another hash.
	BadHash = "bad-hash"
	// NoRoom: there is no memory to rebuild the body.
	NoRoom = "no-room"
	// TooLarge: the body exceeds the origin's limit.
	TooLarge = "too-large"
)

var reasons = []string{UnknownBase, BadDelta, BadHash, NoRoom, TooLarge}

// headers is the overhead of a program's header fields, in bytes.
const headers = 128

// EdgeDriver writes programs for an origin.
type EdgeDriver struct {
	id   string
	seed Seed
}

// NewEdge returns a driver with a random name.
func NewEdge() *EdgeDriver { return &EdgeDriver{rand.Text(), NewSeed()} }

// Name implements [retain.Driver].
func (*EdgeDriver) Name() string { return retain.Origin }

// Once implements [retain.Driver]: an origin keeps a body for any number of requests.
func (*EdgeDriver) Once() bool { return false }

// Delta implements [retain.Driver].
func (d *EdgeDriver) Delta(base *retain.Base, r *retain.Request) (program []byte, common int) {
	var from Text
	if base != nil {
		from = Text{Body: base.Body, Sums: base.Sums}
	}
	to := d.seed.Text(r.Body)
	r.Sums = to.Sums
	program, common = d.seed.Append(make([]byte, 0, 4<<10), from, to)
	// A delta must be shorter than the whole, header fields included.
	if len(program)+headers >= len(r.Body) {
		return nil, common
	}
	return program, common
}

// Dress implements [retain.Driver].
func (d *EdgeDriver) Dress(h http.Header, k retain.Key, base *retain.Base, sent []byte) {
	h[EdgeName] = []string{d.id}
	h[Conversation] = []string{strconv.FormatUint(xxh3.HashString(k.Session+string(k.Conversation[:])), 36)}
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
		v.Handle = h.Get(Handle)
	}
	// Neither field is for the client.
	delete(h, Handle)
	delete(h, Delta)
	return v
}
