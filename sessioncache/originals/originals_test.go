// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package originals

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// owner is a session, as far as its texts are concerned.
type owner struct {
	digest sessioncache.Digest
	tenant sessioncache.Tenant
	gone   atomic.Bool
}

func (o *owner) Digest() sessioncache.Digest { return o.digest }
func (o *owner) Tenant() sessioncache.Tenant { return o.tenant }
func (o *owner) Gone() bool                  { return o.gone.Load() }

func TestStore(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b := clockedAt(now).over(nil)
	one := &owner{digest: sessioncache.Digest{1}, tenant: sessioncache.Tenant{1}}
	two := &owner{digest: sessioncache.Digest{2}, tenant: sessioncache.Tenant{2}}
	scope := wire.Hash{1}
	b.Put(one, scope, "a", "text", now)
	for name, c := range map[string]struct {
		s     *owner
		scope wire.Hash
		name  string
		after time.Duration
		want  bool
	}{
		"its own":              {one, scope, "a", 0, true},
		"another session":      {two, scope, "a", 0, false},
		"another conversation": {one, wire.Hash{2}, "a", 0, false},
		"another name":         {one, scope, "b", 0, false},
	} {
		if got, ok := b.Get(c.s, c.scope, c.name, now.Add(c.after)); ok != c.want || ok && got != "text" {
			t.Errorf("%s: %q, %t", name, got, ok)
		}
	}
	// A text that is read stays; others expire.
	if _, ok := b.Get(one, scope, "a", now.Add(TTL-1)); !ok {
		t.Error("gone too early")
	}
	if _, ok := b.Get(one, scope, "a", now.Add(2*TTL+1)); ok || b.Bytes() != 0 {
		t.Errorf("still there, %d bytes", b.Bytes())
	}
	// The tenant that holds most loses its own texts.
	b.Put(two, scope, "kept", "text", now)
	mega := strings.Repeat("x", 1<<20)
	for i := range 80 {
		b.Put(one, scope, fmt.Sprint(i), mega, now)
	}
	for name, want := range map[string]bool{"0": false, "16": false, "17": true, "79": true} {
		if _, ok := b.Get(one, scope, name, now); ok != want {
			t.Errorf("block %s is there: %t", name, ok)
		}
	}
	if _, ok := b.Get(two, scope, "kept", now); !ok {
		t.Error("one tenant has driven out another's")
	}
	// All tenants together have a bound.
	for i := range 70 {
		b.Put(&owner{digest: sessioncache.Digest{3, byte(i)}, tenant: sessioncache.Tenant{3, byte(i)}}, scope, "a", mega, now)
	}
	if b.Bytes() > DefaultMemory {
		t.Errorf("%d bytes are held", b.Bytes())
	}
	b.Put(one, scope, "huge", strings.Repeat("x", DefaultMemory), now)
	if _, ok := b.Get(one, scope, "huge", now); ok {
		t.Error("a text beyond the bound is held")
	}
}
