// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/valkey-io/valkey-go"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// mostWatched bounds the sessions that a watch knows. Beyond it any of them is forgotten,
// which costs a question to the server.
const mostWatched = 1 << 17

// watch knows which sessions are at the server as this process has last seen them. The
// server says which of them somebody changes, or that it tells no more, and forgets it with
// that. A session that is not at the server is not known here either.
type watch struct {
	prefix string
	on     atomic.Bool // the server tells

	mu       sync.Mutex
	versions map[[8]byte]sessioncache.Version // 0 of those that are being asked for
}

// begin comes before a session is read: what is told from then on counts.
func (w *watch) begin(b [8]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set(b, 0)
}

// writes comes before a session is written. Until that is read back the version before
// counts.
func (w *watch) writes(b [8]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set(b, w.versions[b])
}

func (w *watch) set(b [8]byte, v sessioncache.Version) {
	if !w.on.Load() {
		return
	}
	if w.versions == nil {
		w.versions = map[[8]byte]sessioncache.Version{}
	}
	if _, known := w.versions[b]; !known && len(w.versions) >= mostWatched {
		for other := range w.versions {
			delete(w.versions, other)
			break
		}
	}
	w.versions[b] = v
}

// read notes which version was read, unless another one was written meanwhile; 0 where
// there is none, or it could not be read.
func (w *watch) read(b [8]byte, v sessioncache.Version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if had, ok := w.versions[b]; !ok || had != 0 {
		return
	}
	if v == 0 {
		delete(w.versions, b)
		return
	}
	w.versions[b] = v
}

// wrote notes which version was written, and read back.
func (w *watch) wrote(b [8]byte, v sessioncache.Version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.versions[b]; ok {
		w.versions[b] = v
	}
}

// forget notes that nothing is left of a session.
func (w *watch) forget(b [8]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, b)
}

// told gets the keys of what others have changed, or nil where anything may have
// changed. No answer is read while it runs.
func (w *watch) told(keys []valkey.ValkeyMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if keys == nil {
		clear(w.versions)
		return
	}
	for _, k := range keys {
		key, err := k.ToString()
		rest, ok := strings.CutPrefix(key, w.prefix)
		var b [8]byte
		if err != nil || !ok || len(rest) != 2*len(b)+1 {
			continue
		}
		if _, err := hex.Decode(b[:], []byte(rest[:2*len(b)])); err == nil {
			delete(w.versions, b)
		}
	}
}

// Unchanged implements [sessioncache.Watcher].
func (v *Valkey) Unchanged(d sessioncache.Digest, have sessioncache.Version) bool {
	w := &v.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	return have != 0 && w.versions[beginning(d)] == have
}
