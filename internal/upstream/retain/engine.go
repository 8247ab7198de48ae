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

// overhead is what an entry takes besides what it holds, in bytes.
const overhead = 512

// Side is whose conversations are at which upstream.
type Side struct {
	Tenant   sessioncache.Tenant
	Upstream string
}

// Key names a growing conversation there.
type Key struct {
	Side
	// Session is the public id of the session that it is of.
	Session string
	// Conversation is the hash of how it begins.
	Conversation wire.Hash
}

// talk names a session.
type talk struct {
	Side
	session string
}

// Engine knows what upstreams hold. All methods may be called from several goroutines.
type Engine struct {
	driver Driver

	entries *lru.Cache[Key, sessioncache.Tenant, *entry] // its lock guards all below, too
	newest  map[talk]Key                                 // the conversation of a session that was held last
	at      map[Side]int                                 // how many are held
}

// entry is what is known of one conversation.
type entry struct {
	key    Key
	base   *Base
	flying int // requests on their way that go on from it
}

// New returns an engine that knows nothing. What it comes to know is kept in a pool, for as
// long as something unused is taken to be held.
func New(d Driver, pool *lru.Pool[sessioncache.Tenant], life time.Duration, now func() time.Time) *Engine {
	e := &Engine{driver: d, newest: map[talk]Key{}, at: map[Side]int{}}
	e.entries = lru.New(lru.Options[Key, sessioncache.Tenant, *entry]{Pool: pool, TTL: life, Now: now, Dropped: e.dropped})
	return e
}

// dropped removes an entry that has left the cache from the other indices.
func (e *Engine) dropped(old *lru.Entry[Key, sessioncache.Tenant, *entry]) {
	if e.at[old.Key.Side]--; e.at[old.Key.Side] == 0 {
		delete(e.at, old.Key.Side)
	}
	if t := (talk{old.Key.Side, old.Key.Session}); e.newest[t] == old.Key {
		delete(e.newest, t)
	}
}

// Driver is the way in which the upstreams hold.
func (e *Engine) Driver() Driver { return e.driver }

// Transfer is one request, from the decision how it is sent to what came of it.
type Transfer struct {
	engine *Engine
	from   *entry // nil where nothing is gone on from
	common int    // bytes that what is gone on from and the request begin with
	// Key is what it is of.
	Key Key
	// Request is what is forwarded.
	Request *Request
	// Base is what is gone on from, nil for nothing.
	Base *Base
	// Delta is what is sent, nil for the whole.
	Delta []byte
	// Cause is why it is the whole.
	Cause Cause
}

// Begin decides how a request is sent. The turn has to be ended.
func (e *Engine) Begin(k Key, r *Request) *Transfer {
	t := &Transfer{engine: e, Key: k, Request: r}
	met := t.find()
	if t.Base != nil || met && t.Cause == Unknown {
		if t.Delta, t.common = e.driver.Delta(t.Base, r); t.Delta != nil {
			t.Cause = ""
		} else if t.Base != nil {
			t.Cause = Larger
		}
	}
	e.count(t)
	return t
}

// Answered returns what a conversation's last answer was, if this is the request that
// got it, or says nothing beyond it: that is all.
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

// find finds what can be gone on from, and why not. met tells that the upstream holds
// something of the tenant's.
func (t *Transfer) find() (met bool) {
	e := t.engine
	e.entries.Lock()
	defer e.entries.Unlock()
	found := e.entries.Get(t.Key)
	met = e.at[t.Key.Side] > 0
	if found == nil { // a sister's begins alike, more often than not
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
	if t.Cause = base.before(t.Request); t.Cause != "" { // another answer to the same may be wished for
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

// Retain notes that the upstream holds what an answer says it does. The body is copied, as
// far as it is not the one that the turn goes on from and nobody else does.
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
	if t.Request.View == nil { // else the hashes are all that is compared
		prefix := t.inherit()
		b.Body, b.Sums = append(prefix, t.Request.Body[len(prefix):]...), t.Request.Sums
	}
	t.put(b)
}

// Refuse notes that the upstream holds nothing of the conversation, for as long as it
// is used.
func (t *Transfer) Refuse() { t.put(new(Base)) }

// put takes in what the upstream holds.
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

// inherit returns the bytes that the request and what it goes on from begin with, in
// memory that is the caller's to append to.
func (t *Transfer) inherit() []byte {
	e := t.engine
	e.entries.Lock()
	defer e.entries.Unlock()
	if found := e.entries.Get(t.Key); found != nil && found.Value == t.from && t.from.flying == 1 {
		e.entries.Drop(found)
		return t.Base.Body[:t.common]
	}
	return make([]byte, 0, len(t.Request.Body)+len(t.Request.Body)/8) // the next one is longer
}

// Miss notes that the upstream does not hold what it was thought to. The whole is to be
// sent.
func (t *Transfer) Miss(why Cause) {
	e := t.engine
	e.entries.Lock()
	if t.from != nil {
		if found := e.entries.Get(t.from.key); found != nil && found.Value == t.from {
			e.entries.Drop(found)
		}
	}
	if why == Foreign { // whatever it held, it is another server now
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

// Forget forgets what a tenant has under a handle: its client has had that deleted.
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
