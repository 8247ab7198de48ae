// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Bodies and sessions that nobody goes on from are gone when their time is over.
func TestKeptNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(lru.NewPool[sessioncache.Tenant](1<<20), time.Hour, time.Now)
		s.put(conversation{name: "a"}, make([]byte, 1000))
		s.goOn(conversation{name: "b"}, &talk{body: make([]byte, 1000)})
		time.Sleep(time.Hour)
		synctest.Wait()
		s.kept.Lock()
		defer s.kept.Unlock()
		if n := s.kept.Len(); n > 0 {
			t.Errorf("%d are kept", n)
		}
	})
}
