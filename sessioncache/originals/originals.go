// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package originals keeps texts that were folded, in memory and on disk.
package originals

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const (
	// DefaultMemory is the default limit of all texts in memory, in bytes.
	DefaultMemory = 64 << 20
	// TTL is how long a text stays in memory after it was last put or asked for.
	TTL = 3 * time.Hour
)

// Store keeps texts that were folded, for when the client itself has dropped
// them from its history. A text is found only by the session, the conversation and the
// name that it was put under.
type Store struct {
	texts *lru.Cache[blockKey, sessioncache.Tenant, string]
	now   func() time.Time
	files atomic.Pointer[Files] // where they are kept besides, nil for nowhere
}

// Owner is the session of a text.
type Owner interface {
	// Digest stands for the session's key.
	Digest() sessioncache.Digest
	// Tenant is the session's tenant.
	Tenant() sessioncache.Tenant
	// Gone reports whether it was forgotten.
	Gone() bool
}

type blockKey struct {
	session sessioncache.Digest
	scope   wire.Hash
	name    string
}

// blockOverhead is the approximate size of an entry without its text, in bytes.
const blockOverhead = 250

// New returns a store in a pool, empty but for the texts in the files, which may be nil.
func New(pool *lru.Pool[sessioncache.Tenant], files *Files, now func() time.Time) *Store {
	b := &Store{now: now, texts: lru.New(lru.Options[blockKey, sessioncache.Tenant, string]{
		Pool: pool, TTL: TTL,
		Now: now,
	})}
	b.files.Store(files)
	return b
}

// Move replaces the files, by none if nil. Texts in memory are written to the new files, too. Pending
// writes to the old files still happen.
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
	b.texts.Lock()
	defer b.texts.Unlock()
	if files := b.files.Load(); files != nil {
		files.putAll(slices.Collect(b.texts.Oldest()))
	}
}

// Put stores a text under its name. The scope is the hash of the conversation's first turn.
func (b *Store) Put(s Owner, scope wire.Hash, name, text string) {
	// Texts of a dropped session would never be removed with it.
	if s.Gone() {
		return
	}
	key := blockKey{s.Digest(), scope, name}
	if files := b.files.Load(); files != nil {
		files.put(key, s.Tenant(), text, b.now())
	}
	b.texts.Lock()
	defer b.texts.Unlock()
	b.texts.Put(key, s.Tenant(), text, int64(len(text))+blockOverhead)
}

// Get returns the text of a name in a conversation of a session.
func (b *Store) Get(s Owner, scope wire.Hash, name string) (string, bool) {
	key := blockKey{s.Digest(), scope, name}
	text, ok := b.remembered(key)
	if files := b.files.Load(); !ok && files != nil {
		return files.get(key, s.Tenant(), b.now())
	}
	return text, ok
}

func (b *Store) remembered(key blockKey) (string, bool) {
	b.texts.Lock()
	defer b.texts.Unlock()
	e := b.texts.Get(key)
	if e == nil {
		return "", false
	}
	b.texts.Use(e)
	return e.Value, true
}

// Evict forgets the texts of a session that are in memory.
func (b *Store) Evict(s Owner) {
	b.texts.Lock()
	defer b.texts.Unlock()
	for e := range b.texts.OldestOf(s.Tenant()) {
		if e.Key.session == s.Digest() {
			b.texts.Drop(e)
		}
	}
}

// Forget forgets all texts of a session.
func (b *Store) Forget(s Owner) {
	b.Evict(s)
	if files := b.files.Load(); files != nil {
		files.forget(s.Digest(), s.Tenant())
	}
}

// Bytes returns the memory that is held.
func (b *Store) Bytes() int64 {
	b.texts.Lock()
	defer b.texts.Unlock()
	return b.texts.Bytes()
}

// Close finishes the pending writes.
func (b *Store) Close() error { return b.files.Load().Close() }

// SetLimits changes the bounds of the files, if there are any: the bytes of all
// of them, and how long a text is kept.
func (b *Store) SetLimits(maxBytes int64, ttl time.Duration) {
	if files := b.files.Load(); files != nil {
		files.setLimits(maxBytes, ttl)
	}
}
