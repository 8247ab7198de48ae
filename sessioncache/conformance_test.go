// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache_test

import (
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

func TestMemoryConforms(t *testing.T) {
	storetest.Store(t, func(t *testing.T) *sessioncache.Store {
		m, err := sessioncache.New(sessioncache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}

func TestShelfConforms(t *testing.T) {
	shelves := map[*testing.T]*storetest.Shelf{}
	storetest.Backend(t, func(t *testing.T) sessioncache.Backend {
		if shelves[t] == nil {
			shelves[t] = new(storetest.Shelf)
		}
		return shelves[t]
	})
}

func TestSharedShelfConforms(t *testing.T) {
	shelves := map[*testing.T]*storetest.SharedShelf{}
	storetest.Shared(t, func(t *testing.T) sessioncache.Shared {
		if shelves[t] == nil {
			shelves[t] = new(storetest.SharedShelf)
		}
		return shelves[t]
	})
}

// A store over a backend that others share is one like any other.
func TestSharedStoreConforms(t *testing.T) {
	storetest.Store(t, func(t *testing.T) *sessioncache.Store {
		// a loaded machine takes longer than people would wait
		s, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
			Open: func() (sessioncache.Backend, error) { return new(storetest.SharedShelf), nil }, Budget: time.Second,
			Failed: func(what string, err error) { t.Errorf("%s: %v", what, err) },
		}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
