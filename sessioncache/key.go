// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Tenant is a keyed hash of a credential. Every key contains one, so that credentials share
// nothing.
type Tenant [16]byte

// Key names a session.
type Key struct {
	// Tenant is the session's tenant.
	Tenant Tenant
	// Upstream distinguishes the same conversation at two upstreams.
	Upstream string
	// ID is the conversation id, from the client or derived from the first messages.
	ID string
	// Answer is a response in the conversation, see [Held.Reply] and [Held.First]. A session of the
	// tenant at the upstream with that response takes precedence over ID. Zero for none.
	Answer wire.Hash
	// Request is the request that needs the session. A shared store uses it to tell whether another
	// process can have changed the session. Optional.
	Request *wire.View
}

// Digest names a session in a store and in a backend. It is one-way, and only a holder of the key
// for tenant hashes can compute it.
type Digest [16]byte

// Digest returns the name of the key's session.
func (k Key) Digest() (d Digest) {
	copy(d[:], k.digest())
	return d
}

// digest is the key in the store. It is one-way: ids do not leave it.
func (k Key) digest() string {
	var few [256]byte
	all := append(few[:0], k.Tenant[:]...)
	// The NUL separates the upstream from the id.
	all = append(append(all, k.Upstream...), 0)
	all = append(all, k.ID...)
	sum := sha256.Sum256(all)
	return string(sum[:16])
}

// publicID returns the session's name in headers, logs and the admin API.
func publicID(digest string) string { return hex.EncodeToString([]byte(digest[:8])) }
