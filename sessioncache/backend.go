// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Backend keeps snapshots of sessions beyond the life of the process, in a file or on a server.
// A [Store] with a backend keeps the sessions in use in memory, writes in batches, and tolerates
// every failure of the backend. All snapshots are sealed. Test a new backend
// with the package storetest.
//
// All methods may be called from several goroutines. Calls that write come from one goroutine,
// except for a [Shared] backend.
type Backend interface {
	// Load returns the snapshot of a session, nil if there is none.
	Load(ctx context.Context, d Digest) ([]byte, error)
	// Answered returns the session last saved with a response in [Record.Answers], false if there
	// is none.
	Answered(ctx context.Context, answer Digest) (Digest, bool, error)
	// Named returns the session with a digest that begins with the eight bytes of a public id,
	// false if there is none.
	Named(ctx context.Context, begins [8]byte) (Digest, bool, error)
	// Save replaces the records of the same digests, all of them or none. After a return without an
	// error the records survive any end of the process. The store reuses the memory of the
	// snapshots after any return.
	Save(ctx context.Context, records []Record) error
	// Delete removes a session, so that no later call finds it.
	Delete(ctx context.Context, d Digest) error
	// Usage returns the number of sessions and the bytes that they take.
	Usage() (sessions int, bytes int64)
	// Close ends the use of the backend. It is called once, after all other calls.
	Close() error
}

// Record is one session as a backend keeps it.
type Record struct {
	// Digest names the session. A zero digest names one record that belongs to the store itself.
	Digest Digest
	// Tenant is the session's tenant, a keyed hash.
	Tenant Tenant
	// Answers are the responses by which the session can be found.
	Answers []Digest
	// Known are the responses of the previously saved record, as far as the store can tell. A
	// backend may leave their index entries as they are.
	Known []Digest
	// Used is when the session was last used.
	Used time.Time
	// Snapshot is the sealed content, opaque to the backend.
	Snapshot []byte
}

// named is a response together with its digest.
type named struct {
	answer wire.Hash
	digest Digest
}

// answered returns the digest of a response of a tenant at an upstream.
func answered(t Tenant, upstream string, answer wire.Hash) (d Digest) {
	h := sha256.New()
	h.Write(t[:])
	h.Write([]byte(upstream))
	// The other parts have a fixed length, so that the input is unambiguous.
	h.Write([]byte{0})
	h.Write(answer[:])
	copy(d[:], h.Sum(nil))
	return d
}
