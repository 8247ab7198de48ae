// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"

// Names returns the key that tenants are told apart by, so that their sessions are found
// again: the one that the backend was first used with, or else one that it is given. A
// backend that several processes share keeps none.
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

// owns reports whether what is in memory is the store's to write: not as long as it only
// may take over the memory of another one.
func (d *Durable) owns() bool {
	if d.o.Over == nil {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names != (secret.Key{})
}

// Take has all sessions in memory written to the backend, whose tenants are told apart by
// a key. It is called once nobody uses the store any more that was over them before.
func (d *Durable) Take(names secret.Key) {
	d.mu.Lock()
	d.names = names
	d.mu.Unlock()
	d.noteAll()
}

// SetKey has what is in memory written anew, and all that follows, sealed under a key. What
// is there under another one can be read for as long as the process remembers that.
func (d *Durable) SetKey(key secret.Key) error {
	other, err := d.seals.Use(key)
	if other {
		d.noteAll()
	}
	return err
}

// noteAll has all that is in memory written at once.
func (d *Durable) noteAll() {
	for _, s := range d.every(func(*Session) bool { return true }) {
		d.note(s)
	}
	d.own.stale.Store(true)
	select {
	case d.soon <- struct{}{}:
	default: // it is to be written already
	}
}
