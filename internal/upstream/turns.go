// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const (
	// maxIdleTurns is the time without a request after which a session's translations are forgotten.
	maxIdleTurns = time.Hour
	// maxTranslated is the maximum number of conversations of a session with remembered translations.
	maxTranslated = 16
)

// Translations remembers the translations of conversations. A forgotten one costs the time of a translation.
type Translations struct {
	pool     *lru.Pool[sessioncache.Tenant]
	sessions *lru.Cache[string, sessioncache.Tenant, []translated] // the most recent one first
}

// translated is the translation of one conversation, by its first turn and the upstream's format.
type translated struct {
	first wire.Hash
	to    wire.Format
	turns *translate.Turns
}

// NewTranslations returns an empty memory.
func NewTranslations(limit int64, now func() time.Time) *Translations {
	pool := lru.NewPool[sessioncache.Tenant](limit)
	return &Translations{pool, lru.New(lru.Options[string, sessioncache.Tenant, []translated]{
		Pool: pool, TTL: maxIdleTurns, Now: now,
	})}
}

// Budget is the part of the memory budget.
func (*Translations) Budget() memory.Part { return memory.Translations }

// Bytes is the memory in use.
func (t *Translations) Bytes() int64 { return t.pool.Bytes() }

// SetLimit changes the limit, in bytes.
func (t *Translations) SetLimit(n int64) { t.pool.SetLimit(n) }

// ForgetSession drops the turns of a session.
func (t *Translations) ForgetSession(x *sessioncache.Session) {
	t.sessions.Lock()
	defer t.sessions.Unlock()
	if e := t.sessions.Get(x.ID()); e != nil {
		t.sessions.Drop(e)
	}
}

// get returns the turns of a conversation, nil for none.
func (t *Translations) get(session string, first wire.Hash, to wire.Format) *translate.Turns {
	t.sessions.Lock()
	defer t.sessions.Unlock()
	if e := t.sessions.Get(session); e != nil {
		for i := range e.Value {
			if e.Value[i].first == first && e.Value[i].to == to {
				return e.Value[i].turns
			}
		}
	}
	return nil
}

// put remembers the turns of a conversation in place of earlier ones.
func (t *Translations) put(tenant sessioncache.Tenant, session string, next translated) {
	t.sessions.Lock()
	defer t.sessions.Unlock()
	all := make([]translated, 0, 1)
	if next.turns != nil {
		all = append(all, next)
	}
	e := t.sessions.Get(session)
	if e != nil {
		for _, c := range e.Value[:min(len(e.Value), maxTranslated-1)] {
			if c.first != next.first || c.to != next.to {
				all = append(all, c)
			}
		}
	}
	switch {
	case len(all) > 0:
		size := int64(len(session)) + 200
		for _, c := range all {
			size += c.turns.Size()
		}
		t.sessions.Put(session, tenant, slices.Clip(all), size)
	case e != nil:
		t.sessions.Drop(e)
	}
}
