// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// MinIdleTTL is about the shortest pause of a user.
const MinIdleTTL = time.Minute

// MemoryStore keeps sessions in the memory of the process. They survive
// reloads, not restarts.
type MemoryStore struct {
	// IdleTTL is how long a session is kept after its last request. At least
	// 1m. Default: 3h.
	IdleTTL caddy.Duration `json:"idle_ttl,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (MemoryStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.stores.memory", New: func() caddy.Module { return new(MemoryStore) }}
}

// Provision fills in defaults and refuses limits out of range.
func (m *MemoryStore) Provision(caddy.Context) error {
	if m.IdleTTL == 0 {
		m.IdleTTL = caddy.Duration(sessioncache.DefaultIdleTTL)
	}
	// Caddy would validate only after the app has opened the store.
	return m.Validate()
}

// Validate reports the first limit out of its range.
func (m *MemoryStore) Validate() error {
	if ttl := time.Duration(m.IdleTTL); ttl != 0 && ttl < MinIdleTTL {
		return fmt.Errorf("idle_ttl: %s is below %s", ttl, MinIdleTTL)
	}
	return nil
}

// Identity implements Store.
func (m *MemoryStore) Identity() string { return "" }

// Open implements Store.
func (m *MemoryStore) Open() (*sessioncache.Store, error) {
	return sessioncache.New(m.options())
}

// Adjust implements Store.
func (m *MemoryStore) Adjust(s *sessioncache.Store) error {
	worksAgain(s)
	return errors.Join(s.Move(nil), s.SetLimits(m.options()))
}

func (m *MemoryStore) options() sessioncache.Options {
	return sessioncache.Options{IdleTTL: time.Duration(m.IdleTTL)}
}

// UnmarshalCaddyfile sets the store up from Caddyfile tokens. Syntax:
//
//	memory {
//		idle_ttl <duration>
//	}
func (m *MemoryStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the store
	return option.Alone(d, "store memory", option.Options{
		"idle_ttl": option.Checked(option.Duration(&m.IdleTTL), m.Validate),
	})
}
