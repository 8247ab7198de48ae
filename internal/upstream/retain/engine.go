// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package retain

import (
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// overhead is the memory of an entry besides its content, in bytes.
const overhead = 512

// Side is a tenant at an upstream.
type Side struct {
	Tenant   sessioncache.Tenant
	Upstream string
}

// Key identifies a growing conversation of a side.
type Key struct {
	Side
	// Session is the public id of its session.
	Session string
	// Conversation is the hash of its beginning.
	Conversation wire.Hash
}

type talk struct {
	Side
	session string
}

// Engine tracks the states that upstreams retain. All methods may be called from several goroutines.
type Engine struct {
	driver Driver

	entries *lru.Cache[Key, sessioncache.Tenant, *entry] // its lock guards all below, too
	newest  map[talk]Key                                 // latest conversation of a session
	at      map[Side]int                                 // number of entries
}

type entry struct {
	key    Key
	base   *Base
	flying int // requests in flight that continue it
}

// New returns an empty engine. Its entries are kept in a pool, for the time that upstreams certainly retain an
// unused state.
func New(d Driver, pool *lru.Pool[sessioncache.Tenant], life time.Duration, now func() time.Time) *Engine {
	e := &Engine{driver: d, newest: map[talk]Key{}, at: map[Side]int{}}
	e.entries = lru.New(lru.Options[Key, sessioncache.Tenant, *entry]{Pool: pool, TTL: life, Now: now, Dropped: e.dropped})
	return e
}

func (e *Engine) dropped(old *lru.Entry[Key, sessioncache.Tenant, *entry]) {
	if e.at[old.Key.Side]--; e.at[old.Key.Side] == 0 {
		delete(e.at, old.Key.Side)
	}
	if t := (talk{old.Key.Side, old.Key.Session}); e.newest[t] == old.Key {
		delete(e.newest, t)
	}
}

// Driver returns the engine's driver.
func (e *Engine) Driver() Driver { return e.driver }

// Transfer is one request, from the choice of its form to the upstream's verdict.
type Transfer struct {
	engine *Engine
	from   *entry // nil without a base
	common int    // bytes in common with the base
	// Key identifies the request's conversation.
	Key Key
	// Request is the forwarded request.
	Request *Request
	// Base is the state that the request continues, nil for none.
	Base *Base
	// Delta is the body to send, nil for the whole.
	Delta []byte
	// Cause is the reason for sending the whole.
	Cause Cause
}

// Begin chooses the form of a request. The transfer must be ended.
func (e *Engine) Begin(k Key, r *Request) *Transfer {
	t := &Transfer{engine: e, Key: k, Request: r}
	met := t.find()
	switch {
	case t.Base != nil && r.WritesEntry:
		t.Cause = WritesEntry
	case t.Base != nil || met && t.Cause == Unknown:
		if t.Delta, t.common = e.driver.Delta(t.Base, r); t.Delta != nil {
			t.Cause = ""
		} else if t.Base != nil {
			t.Cause = Larger
		}
	}
	e.count(t)
	return t
}

// Answered returns the outcome of a conversation's last answer if the request is the one that got it, or with all,
// one that ends with that answer.
func (e *Engine) Answered(k Key, r *Request) (o *Outcome, all bool) {
	e.entries.Lock()
	defer e.entries.Unlock()
	found := e.entries.Get(k)
	if found == nil || found.Value.base.Outcome == nil {
		return nil, false
	}
	b := found.Value.base
	all = len(b.History) == len(r.History)
	if b.Bound != r.Bound || !all && len(b.History) != len(r.History)+1 ||
		!slices.Equal(b.History[:len(r.History)], r.History) {
		return nil, false
	}
	return b.Outcome, all
}

// find finds the base, or the reason for none. met reports that the upstream retains any state of the tenant.
func (t *Transfer) find() (met bool) {
	e := t.engine
	e.entries.Lock()
	defer e.entries.Unlock()
	found := e.entries.Get(t.Key)
	met = e.at[t.Key.Side] > 0
	if found == nil { // sub-agents of a session mostly begin alike
		if k, ok := e.newest[talk{t.Key.Side, t.Key.Session}]; ok && !e.driver.Once() {
			found = e.entries.Get(k)
		}
	}
	if found == nil {
		t.Cause = Unknown
		return met
	}
	if found.Value.base.Handle == "" {
		t.Cause = Refused
		return met
	}
	base := found.Value.base
	if t.Cause = base.before(t.Request); t.Cause != "" { // the client may ask for another answer to the same request
		if base = base.prior; base == nil || base.before(t.Request) != "" {
			return met
		}
		t.Cause = ""
	}
	if found.Value.flying > 0 && e.driver.Once() {
		t.Cause = InFlight
		return met
	}
	if lost := t.Request.Lost; lost != nil && lost(found.Value.base.Handle) {
		t.Cause = Lost
		e.entries.Drop(found)
		return met
	}
	e.entries.Use(found)
	t.from, t.Base = found.Value, base
	t.from.flying++
	return met
}

// Retain records the state that the upstream retains by its verdict.
func (t *Transfer) Retain(v Verdict) {
	if v.Handle == "" {
		return
	}
	b := &Base{Handle: v.Handle, Request: Request{Bound: t.Request.Bound, History: t.Request.History}, Outcome: v.Outcome}
	if v.History != nil {
		b.History = v.History
	}
	if t.Base != nil && t.Delta != nil && v.Outcome != nil {
		prior := *t.Base
		prior.prior = nil
		b.prior = &prior
	}
	if t.Request.View == nil { // drivers with a view compare hashes only
		prefix := t.inherit()
		b.Body, b.Sums = append(prefix, t.Request.Body[len(prefix):]...), t.Request.Sums
	}
	t.put(b)
}

// Refuse records that the upstream retains nothing of the conversation.
func (t *Transfer) Refuse() { t.put(new(Base)) }

func (t *Transfer) put(b *Base) {
	size := int64(overhead + cap(b.Body) + (len(b.History)+len(b.Sums))*len(wire.Hash{}))
	if b.prior != nil {
		size += int64(len(b.prior.History) * len(wire.Hash{}))
	}
	if b.Outcome != nil {
		size += int64(len(b.Outcome.Handle) + len(b.Outcome.Text) + len(b.Outcome.Mark))
	}
	e := t.engine
	e.entries.Lock()
	defer e.entries.Unlock()
	if before := e.entries.Get(t.Key); before != nil {
		e.entries.Drop(before)
	}
	// The indices come first: an entry that does not fit is dropped from them at once.
	e.newest[talk{t.Key.Side, t.Key.Session}] = t.Key
	e.at[t.Key.Side]++
	e.entries.Put(t.Key, t.Key.Tenant, &entry{key: t.Key, base: b}, size)
}

// inherit returns the common bytes of base and request, with room to append.
func (t *Transfer) inherit() []byte {
	e := t.engine
	e.entries.Lock()
	defer e.entries.Unlock()
	// Without other users, the base's memory serves the next base. A long conversation is then not copied at each
	// turn.
	if found := e.entries.Get(t.Key); found != nil && found.Value == t.from && t.from.flying == 1 {
		e.entries.Drop(found)
		return t.Base.Body[:t.common]
	}
	// The next request is longer.
	return make([]byte, 0, len(t.Request.Body)+len(t.Request.Body)/8)
}

// Miss records that the upstream does not retain the base. The whole must be sent.
func (t *Transfer) Miss(why Cause) {
	e := t.engine
	e.entries.Lock()
	if t.from != nil {
		if found := e.entries.Get(t.from.key); found != nil && found.Value == t.from {
			e.entries.Drop(found)
		}
	}
	if why == Foreign { // another server now answers there
		for k := range e.entries.OldestOf(t.Key.Tenant) {
			if k.Key.Side == t.Key.Side {
				e.entries.Drop(k)
			}
		}
	}
	e.entries.Unlock()
	missed.WithLabelValues(e.driver.Name(), string(why)).Inc()
	resent.WithLabelValues(e.driver.Name()).Inc()
	bytesSent.WithLabelValues(e.driver.Name(), "sent").Add(float64(len(t.Request.Body)))
	t.Delta, t.Cause = nil, why
}

// Forget drops a tenant's states under a handle, after the client has deleted its answer.
func (e *Engine) Forget(s Side, handle string) {
	e.entries.Lock()
	defer e.entries.Unlock()
	for old := range e.entries.OldestOf(s.Tenant) {
		if old.Key.Side == s && old.Value.base.goesBy(handle) {
			e.entries.Drop(old)
		}
	}
}

// Clear forgets all conversations.
func (e *Engine) Clear() {
	e.entries.Lock()
	defer e.entries.Unlock()
	e.entries.Clear()
}

// ForgetSession forgets the conversations of a tenant's session.
func (e *Engine) ForgetSession(t sessioncache.Tenant, session string) {
	e.entries.Lock()
	defer e.entries.Unlock()
	for old := range e.entries.OldestOf(t) {
		if old.Key.Session == session {
			e.entries.Drop(old)
		}
	}
}

// End ends the turn.
func (t *Transfer) End() {
	if t.from == nil {
		return
	}
	t.engine.entries.Lock()
	defer t.engine.entries.Unlock()
	t.from.flying--
}
