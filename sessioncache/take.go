// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"

// Names returns the key that tenants are hashed with, so that a restarted process finds their
// sessions: the key first used with the backend, else the given one. A shared backend stores no
// key.
func (d *Durable) Names(first secret.Key) secret.Key {
	_ = d.Begin()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names == (secret.Key{}) {
		d.names = first
		d.own.stale.Store(true)
	}
	return d.names
}

// owns reports whether the store may write the sessions in memory. A store over another one's
// memory may not before [Durable.Take].
func (d *Durable) owns() bool {
	if d.o.Over == nil {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names != (secret.Key{})
}

// Take writes all sessions in memory to the backend, with tenants hashed by the given key. Call it
// once no other store over the same memory is in use.
func (d *Durable) Take(names secret.Key) {
	d.mu.Lock()
	d.names = names
	d.mu.Unlock()
	d.noteAll()
}

// SetKey seals all sessions in memory and all later records under a new key, and writes them again.
// Records under the old key stay readable while the process remembers that key.
func (d *Durable) SetKey(key secret.Key) error {
	other, err := d.seals.Use(key)
	if other {
		d.noteAll()
	}
	return err
}

// noteAll schedules an immediate write of all sessions in memory.
func (d *Durable) noteAll() {
	for _, s := range d.every(func(*Session) bool { return true }) {
		d.note(s)
	}
	d.own.stale.Store(true)
	select {
	case d.soon <- struct{}{}:
	default: // one is scheduled already
	}
}
