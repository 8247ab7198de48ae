// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Backend keeps snapshots of sessions where they outlive the process: in a file, or
// at a server. [NewDurable] makes a [Store] of it: it holds the sessions in use in
// memory, writes in batches, and does without whatever the backend fails to do. What it
// gives to the backend is sealed. Whoever writes a backend can have it tested by the
// package storetest.
//
// All methods may be called from several goroutines; those that write come from one, but
// for a [Shared] backend.
type Backend interface {
	// Load returns the snapshot of a session, nil if there is none.
	Load(ctx context.Context, d Digest) ([]byte, error)
	// Answered returns the session that was last saved with an answer among
	// [Record.Answers]; false if there is none.
	Answered(ctx context.Context, answer Digest) (Digest, bool, error)
	// Named returns the session whose digest begins with eight bytes, as public ids
	// do; false if there is none.
	Named(ctx context.Context, begins [8]byte) (Digest, bool, error)
	// Save keeps records in the place of those of their names, all of them or
	// none. Once it has returned without an error, they outlive the process, however
	// that ends. In any case the memory of their snapshots is used for others then.
	Save(ctx context.Context, records []Record) error
	// Delete forgets a session, so that it is not found any more.
	Delete(ctx context.Context, d Digest) error
	// Usage returns how many sessions are kept, and the bytes that they take.
	Usage() (sessions int, bytes int64)
	// Close ends the use of the backend. It is called once, after all else.
	Close() error
}

// Record is one session as a backend keeps it.
type Record struct {
	// Digest names it. It is zero for one record that belongs to the store itself.
	Digest Digest
	// Tenant is whose session it is, a keyed hash.
	Tenant Tenant
	// Answers are the answers that the session is found by.
	Answers []Digest
	// Known are those of the answers that the session was last kept with, as far as can
	// be told. A backend may leave them as they are.
	Known []Digest
	// Used is when the session was last used.
	Used time.Time
	// Snapshot is what to keep: sealed, and nothing that a backend needs to
	// understand.
	Snapshot []byte
}

// Claimer is a [Store] in which the edits of a request can be made to outlive the
// process before the request is forwarded.
type Claimer interface {
	// Claim has what a request is about to be sent with outlive the process, as if it
	// were committed, see [Session.Commit]. As says what else is to be noted of the
	// conversation. It waits no longer than a moment, and fails in silence. It
	// returns false if another process was faster: what that one sends is in the
	// session now, and what the request is sent with must be decided anew.
	Claim(s *Session, m Match, v *wire.View, states []BlockState, as func(*Lineage)) bool
}

// named is what an answer is named.
type named struct {
	answer wire.Hash
	digest Digest
}

// answered names an answer among those of a tenant at an upstream.
func answered(t Tenant, upstream string, answer wire.Hash) (d Digest) {
	h := sha256.New()
	h.Write(t[:])
	h.Write([]byte(upstream))
	h.Write([]byte{0})
	h.Write(answer[:])
	copy(d[:], h.Sum(nil))
	return d
}
