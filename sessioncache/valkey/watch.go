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

// maxWatched bounds the watched sessions. Beyond it a random one is dropped, at the cost of one
// request to the server.
const maxWatched = 1 << 17

// watch knows the sessions that have not changed since this process last read or wrote them. The
// server invalidates them by client tracking: it names a changed key once, or ends all tracking. A
// session that is missing at the server is not in the watch.
type watch struct {
	prefix string
	on     atomic.Bool // the server supports tracking

	mu       sync.Mutex
	versions map[[8]byte]sessioncache.Version // 0 while a session is being read
}

// begin precedes the read of a session: invalidations count from here on.
func (w *watch) begin(b [8]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set(b, 0)
}

// writes precedes the write of a session. The old version stays until the new one is read back.
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
	if _, known := w.versions[b]; !known && len(w.versions) >= maxWatched {
		for other := range w.versions {
			delete(w.versions, other)
			break
		}
	}
	w.versions[b] = v
}

// read records the version that was read, 0 for a missing session or a failure, unless another one
// was written meanwhile.
func (w *watch) read(b [8]byte, v sessioncache.Version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// An invalidation or a write came in between.
	if had, ok := w.versions[b]; !ok || had != 0 {
		return
	}
	if v == 0 {
		delete(w.versions, b)
		return
	}
	w.versions[b] = v
}

// wrote records the version that was written and read back.
func (w *watch) wrote(b [8]byte, v sessioncache.Version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Otherwise an invalidation came in between.
	if _, ok := w.versions[b]; ok {
		w.versions[b] = v
	}
}

// forget removes a session that no longer exists.
func (w *watch) forget(b [8]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, b)
}

// invalidate receives the keys that other clients have changed, or nil if any key may have changed. The
// client reads no response while told runs.
func (w *watch) invalidate(keys []valkey.ValkeyMessage) {
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
