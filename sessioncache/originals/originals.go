// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package originals keeps texts that were folded, in memory and on disk.
package originals

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// The bounds of the store of folded texts.
const (
	// MaxBytes bounds all texts together.
	MaxBytes = 64 << 20
	// MaxTenantBytes bounds those of one tenant.
	MaxTenantBytes = 16 << 20
	// TTL is how long a text is kept after it was last put or asked for.
	TTL = 3 * time.Hour
)

// Store keeps texts that were folded, for when the client itself has dropped
// them from its history. It is bounded by bytes, in all and for each tenant, and
// by time; what was not used for longest goes first. A text is found only by the
// session, the conversation and the name that it was put under.
type Store struct {
	mu    sync.Mutex
	texts *lru.Cache[blockKey, sessioncache.Tenant, block]
	files atomic.Pointer[Files] // where they are kept besides, nil for nowhere
}

// Owner is the session whose texts they are.
type Owner interface {
	// Digest stands for the session's key.
	Digest() string
	// Tenant is whose session it is.
	Tenant() sessioncache.Tenant
	// Gone reports whether it was forgotten.
	Gone() bool
}

type blockKey struct {
	session string
	scope   wire.Hash
	name    string
}

type block struct {
	text string
	at   time.Time // it was last put or asked for
}

// blockOverhead is about what an entry takes besides its text, in bytes.
const blockOverhead = 250

// New returns a store that is empty but for what the files hold, where
// texts are kept besides. They may be nil.
func New(files *Files) *Store {
	b := &Store{texts: lru.New[blockKey, sessioncache.Tenant, block]()}
	b.files.Store(files)
	return b
}

// Move has texts kept in other files from now on, or in none. Those in memory come to lie
// there, too; what waits to be written to the files before is written.
func (b *Store) Move(files *Files) error {
	before := b.files.Swap(files)
	b.rewrite()
	return before.Close()
}

// SetKey has texts sealed under another key from now on, if they lie in files.
func (b *Store) SetKey(key secret.Key) error {
	files := b.files.Load()
	if files == nil {
		return nil
	}
	other, err := files.keys.Use(key)
	if other {
		b.rewrite()
	}
	return err
}

// rewrite puts all texts in memory into the files.
func (b *Store) rewrite() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if files := b.files.Load(); files != nil {
		files.putAll(slices.Collect(b.texts.Oldest()))
	}
}

// Put keeps a text under its name. The scope is the hash of the conversation's
// first turn. Texts beyond the tenant's bound are not kept, nor are those of a session
// that was forgotten.
func (b *Store) Put(s Owner, scope wire.Hash, name, text string, now time.Time) {
	if s.Gone() {
		return
	}
	key, size := blockKey{s.Digest(), scope, name}, int64(len(text))+blockOverhead
	if size > MaxTenantBytes {
		return
	}
	if files := b.files.Load(); files != nil {
		files.put(key, s.Tenant(), text, now)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.texts.Put(key, s.Tenant(), block{text, now}, size)
	for e := range b.texts.Oldest() {
		if now.Sub(e.Value.at) <= TTL && b.texts.Bytes() <= MaxBytes {
			break
		}
		b.texts.Drop(e)
	}
	for e := range b.texts.OldestOf(s.Tenant()) {
		if b.texts.BytesOf(s.Tenant()) <= MaxTenantBytes {
			break
		}
		b.texts.Drop(e)
	}
}

// Get returns the text of a name in a conversation of a session.
func (b *Store) Get(s Owner, scope wire.Hash, name string, now time.Time) (string, bool) {
	key := blockKey{s.Digest(), scope, name}
	text, ok := b.remembered(key, now)
	if files := b.files.Load(); !ok && files != nil {
		return files.get(key, s.Tenant(), now)
	}
	return text, ok
}

func (b *Store) remembered(key blockKey, now time.Time) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.texts.Get(key)
	if e == nil {
		return "", false
	}
	if now.Sub(e.Value.at) > TTL {
		b.texts.Drop(e)
		return "", false
	}
	e.Value.at = now
	b.texts.Use(e)
	return e.Value.text, true
}

// Forget forgets all texts of a session.
func (b *Store) Forget(s Owner) {
	b.mu.Lock()
	for e := range b.texts.OldestOf(s.Tenant()) {
		if e.Key.session == s.Digest() {
			b.texts.Drop(e)
		}
	}
	b.mu.Unlock()
	if files := b.files.Load(); files != nil {
		files.forget(s.Digest(), s.Tenant())
	}
}

// Bytes returns the memory that is held.
func (b *Store) Bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.texts.Bytes()
}

// Close writes to the files what is yet to be written.
func (b *Store) Close() error { return b.files.Load().Close() }

// SetLimits changes the bounds of the files, if there are any: the bytes of all
// of them, and how long a text is kept.
func (b *Store) SetLimits(maxBytes int64, ttl time.Duration, now time.Time) {
	if files := b.files.Load(); files != nil {
		files.setLimits(maxBytes, ttl, now)
	}
}
