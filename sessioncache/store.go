// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"crypto/sha256"
	"encoding/hex"
	"math"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Tenant is a keyed hash of a credential. Every key contains one, so that
// nothing is ever shared between credentials.
type Tenant [16]byte

// Key names a session.
type Key struct {
	// Tenant is whose session it is.
	Tenant Tenant
	// Upstream keeps apart the same conversation at two upstreams.
	Upstream string
	// ID is the conversation id, as the client gives it or as derived from
	// the first messages.
	ID string
	// Answer is what an answer in the conversation is recognised by, see
	// [Held.Reply] and [Held.First]. If a session of the tenant at the
	// upstream has it, that is the session, whatever the ID. Zero for none.
	Answer wire.Hash
	// Request is what the session is wanted for. A store that other processes share
	// tells by it whether one of them can have changed the session. Optional.
	Request *wire.View
}

// Digest names a session in a store, and in what outlives the process. It is one way,
// and nobody makes the same without the key that tenants are hashed with.
type Digest [16]byte

// Digest is the name of the session that a key is for.
func (k Key) Digest() (d Digest) {
	copy(d[:], k.digest())
	return d
}

// digest is the key in the store. It is one way: ids do not leave it.
func (k Key) digest() string {
	var few [256]byte
	all := append(few[:0], k.Tenant[:]...)
	all = append(append(all, k.Upstream...), 0)
	all = append(all, k.ID...)
	sum := sha256.Sum256(all)
	return string(sum[:16])
}

// publicID is how a session is named in headers, logs and the admin API.
func publicID(digest string) string { return hex.EncodeToString([]byte(digest[:8])) }

// Newest is the number below which all sessions are, see [Store.Page].
const Newest = math.MaxUint64

// Store keeps sessions. All methods may be called from several goroutines.
type Store interface {
	// Recall finds what was last parsed of the conversation whose first
	// turn has this hash, see [wire.Known.First]; nil if there is none. It is held, see
	// [wire.Known.Hold]: the caller releases it.
	Recall(t Tenant, first wire.Hash) *wire.Known
	// Acquire returns the session of a key, made if need be, and pins it: it
	// is not evicted before Release was called as often as Acquire.
	Acquire(k Key) *Session
	// Hold makes a session part of the store while it is pinned, once a request was
	// committed in it.
	Hold(s *Session)
	// Release takes back a pin and accounts for what the session has become. One
	// in which no request was committed is gone with its last pin.
	Release(s *Session)
	// Find returns a session by its public id, nil if there is none.
	Find(id string) *Session
	// Delete forgets a session by its public id and returns it, nil if there was
	// none. Requests that use it go on, and nothing of them is remembered.
	Delete(id string) *Session
	// Page returns sessions in which a request was committed, the newest first, by
	// their numbers: at most so many, of those with a number below before.
	Page(before uint64, most int) []*Session
	// Stats returns counters.
	Stats() StoreStats
	// Close releases what the store holds. Sessions acquired before may still
	// be used and released.
	Close() error
}
