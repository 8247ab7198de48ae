// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/idlefold"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/letta"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/local"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/overlay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/relay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/warm"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/websocket"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/originals"
)

// states holds every open session store, so that a store outlives the
// configurations that use it.
var states = caddy.NewUsagePool()

// State is an open store and what belongs to it. It closes
// when the last configuration has let go of it and the last request that runs
// on it has ended.
type State struct {
	*sessioncache.Store
	// Blocks are the texts that were folded.
	Blocks *originals.Store
	// Carrier takes requests of our own through the sites in force.
	Carrier selfrequest.Carrier
	// Keeper keeps the caches of idle conversations alive.
	Keeper *pinger.Keeper
	// Queues are those before boxes.
	Queues local.Queues
	// Boxes is what boxes are to read while nobody waits.
	Boxes warm.Boxes
	// Detached are the requests whose client has left.
	Detached local.Detached
	// Barrier is where requests wait for their twins.
	Barrier Barrier
	// Overlays is how conversations began and what they were told since.
	Overlays *overlay.Store
	// Holds is what upstreams hold.
	Holds relay.Engines
	// Agents are those of Letta that conversations have.
	Agents letta.Agents
	// Sockets are the conversations on clients' WebSockets.
	Sockets *websocket.Memory
	// Upstreams are those that sites in force stand in front of.
	Upstreams Upstreams
	// Refusals are the edits that upstreams have refused.
	Refusals Refusals
	// Strangers are the clients whose requests could not be read.
	Strangers Strangers
	// Planned is the idle fold that is to be sent, on a clock of the caller's.
	Planned *idlefold.Fold

	pins    atomic.Int64 // one for the configurations, one for each request
	learned atomic.Bool  // what stands on record
	name    string       // of the state among others
	folder  string       // of the files of folded texts, which the configurations that run guard

	overlays    *lru.Pool[string]
	originals   *lru.Pool[sessioncache.Tenant]
	attachments []func(*sessioncache.Session) // each forgets what it has of a session

	naming  sync.Once
	secret  secret.Key // by which tenants are told apart, unless the store knows better
	tenants atomic.Pointer[tenant.Key]
}

// Tenants tells tenants apart, in the same way as long as there are sessions.
func (s *State) Tenants() *tenant.Key {
	s.naming.Do(s.tell)
	return s.tenants.Load()
}

// tell has tenants told apart as the store says.
func (s *State) tell() {
	names := s.Names(s.secret)
	if now := s.tenants.Load(); now == nil || now.Secret != names {
		s.tenants.Store(&tenant.Key{Secret: names})
	}
}

// NewState returns a state that keeps folded texts in files, too, if there are any. The clock
// is the one by which texts and overlays expire.
func NewState(store *sessioncache.Store, files *originals.Files, now func() time.Time) *State {
	s := &State{
		Store: store, Sockets: websocket.NewMemory(memory.Sockets.Share()),
		overlays: lru.NewPool[string](memory.Overlays.Share()), originals: lru.NewPool[sessioncache.Tenant](memory.Originals.Share()),
	}
	s.Blocks, s.Overlays = originals.New(s.originals, files, now), overlay.NewStore(s.overlays, now)
	s.Holds.Pool = lru.NewPool[sessioncache.Tenant](memory.Retained.Share())
	_, _ = rand.Read(s.secret[:]) // never fails
	s.Keeper = pinger.New(&s.Carrier)
	s.Keeper.Store = store
	s.Boxes.Carrier, s.Boxes.Pin, s.Boxes.Unpin = &s.Carrier, s.Pin, s.Unpin
	s.pins.Store(1)
	s.attachments = []func(*sessioncache.Session){
		func(x *sessioncache.Session) { s.Keeper.Forget(x.ID()) },
		func(x *sessioncache.Session) { s.Overlays.Forget(x.ID()) },
		func(x *sessioncache.Session) { s.Holds.ForgetSession(x.Tenant(), x.ID()) },
		func(x *sessioncache.Session) { s.Agents.ForgetSession(x.Tenant(), x.ID()) },
		func(x *sessioncache.Session) { s.Sockets.ForgetSession(x.ID()) },
		func(x *sessioncache.Session) { s.Detached.Forget(x.Tenant(), x.ID()) },
		func(x *sessioncache.Session) { s.Blocks.Evict(x) },
	}
	store.OnEvict(s.detach)
	s.setMemory(memory.Budget())
	return s
}

// Pin keeps the store open for one request. It returns false when the store
// is closed already.
func (s *State) Pin() bool {
	for {
		n := s.pins.Load()
		if n == 0 {
			return false
		}
		if s.pins.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Unpin ends that.
func (s *State) Unpin() error {
	if s.pins.Add(-1) > 0 {
		return nil
	}
	left.CompareAndDelete(s.name, s)
	s.rest()
	lastFailed.Delete(s.Store)
	return errors.Join(s.Blocks.Close(), s.Close())
}

// detach forgets everything in memory that is attached to a session: pings with its
// credential, its overlays, prompts that upstreams hold, agents, answers and folded texts. The
// bases of prompts stay, which conversations of a tenant share.
func (s *State) detach(session *sessioncache.Session) {
	for _, forget := range s.attachments {
		forget(session)
	}
}

// Forget forgets everything that is attached to a session that somebody has deleted, in
// memory and on disk.
func (s *State) Forget(session *sessioncache.Session) {
	s.detach(session)
	s.Blocks.Forget(session)
}

// left are the states that requests use, and no configuration any more, by their names.
var left sync.Map // of *State

// Destruct implements caddy.Destructor.
func (s *State) Destruct() error {
	left.Store(s.name, s)
	return s.Unpin()
}

// Lease is one configuration's share of a state.
type Lease struct {
	// State is what it is a share of.
	State *State

	key string
}

// acquire takes a share of the state under key and opens it if there is none. One that
// requests still use is in the way of another: it has its files open.
func acquire(key string, open func() (*State, error)) (*Lease, error) {
	v, _, err := states.LoadOrNew(key, func() (caddy.Destructor, error) {
		if s, ok := left.LoadAndDelete(key); ok && s.(*State).Pin() {
			return s.(*State), nil
		}
		s, err := open()
		if err != nil {
			return nil, err // not a nil state in an interface
		}
		s.name = key
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return &Lease{key: key, State: v.(*State)}, nil
}

// Release gives the share back.
func (l *Lease) Release() error {
	_, err := states.Delete(l.key)
	return err
}

// Open are the open states.
func Open() (all []*State) {
	states.Range(func(_, v any) bool {
		all = append(all, v.(*State))
		return true
	})
	return all
}

// rest ends what is sent while nobody waits, or nobody any more.
func (s *State) rest() {
	s.Carrier.Stop()
	s.Keeper.Stop()
	s.Boxes.Stop()
	s.Detached.GiveUp()
}
