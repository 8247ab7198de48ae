// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache_test

import (
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// A session of which no snapshot can be made costs the others nothing.
func TestSpoiledSessionCostsOnlyItself(t *testing.T) {
	for name, shelf := range map[string]sessioncache.Backend{
		"one process": new(storetest.Shelf),
		"several":     new(storetest.SharedShelf),
	} {
		t.Run(name, func(t *testing.T) {
			failed := 0
			open := func() *sessioncache.Store {
				d, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
					Open:     func() (sessioncache.Backend, error) { return shelf, nil },
					Interval: time.Hour, Budget: time.Minute, Failed: func(string, error) { failed++ },
				}})
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			spoiled, sound := sharedKey, sharedKey
			spoiled.ID, sound.ID = "spoiled", "sound"
			d := open()
			s, _ := commitTo(t, d, spoiled, firstMessage)
			s.Lock()
			s.Spoil()
			s.Unlock()
			commitTo(t, d, sound, firstMessage)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if failed == 0 {
				t.Error("nobody is told that a session could not be saved")
			}

			d = open()
			defer func() { _ = d.Close() }()
			for key, there := range map[sessioncache.Key]int{spoiled: 0, sound: 1} {
				s := d.Acquire(t.Context(), key)
				if n := len(s.Report(time.Now()).Conversations); n != there {
					t.Errorf("%d conversations of the %s session", n, key.ID)
				}
				d.Release(s)
			}
		})
	}
}
