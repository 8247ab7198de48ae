// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package handler

import (
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/box"
	"github.com/caddy-llm-cache/caddy-llm-cache/box/overlay"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/tenant"
)

// states holds every open session store, so that a store outlives the
// configurations that use it.
var states = caddy.NewUsagePool()

// state is an open store and the key that tenants are told apart by. It closes
// when the last configuration has let go of it and the last request that runs
// on it has ended.
type state struct {
	sessioncache.Store
	key       tenant.Key
	blocks    *sessioncache.Blocks // texts that were folded
	keeper    *keeper
	pins      atomic.Int64 // one for the configurations, one for each request
	queues    box.Queues
	boxes     sync.Map     // of *warmer, by its *queue.Queue
	pending   *idleFold    // on a clock of the caller's
	detached  box.Detached // requests whose client has left
	strangers strangers    // clients whose requests could not be read
	// overlays is how conversations began and what they were told since.
	overlays *overlay.Store
}

// newState returns a state that keeps folded texts in files, too, if there are any.
func newState(store sessioncache.Store, files *sessioncache.BlockFiles) *state {
	s := &state{Store: store, keeper: newKeeper(), blocks: sessioncache.NewBlocks(files), overlays: overlay.NewStore()}
	_, _ = rand.Read(s.key.Secret[:]) // never fails
	s.pins.Store(1)
	return s
}

// pin keeps the store open for one request. It returns false when the store
// is closed already.
func (s *state) pin() bool {
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

func (s *state) unpin() error {
	if s.pins.Add(-1) > 0 {
		return nil
	}
	s.rest()
	s.keeper.stop()
	return errors.Join(s.blocks.Close(), s.Close())
}

// forget forgets all of a session that the store does not hold itself: what is
// pinged for it, with whose credential, what was folded, and what was laid over it.
func (s *state) forget(session *sessioncache.Session) {
	s.keeper.schedule.Forget(session.ID())
	s.overlays.Forget(session.ID())
	s.blocks.Forget(session)
}

// leave ends a request's hold on its session. What requests have left of one that
// was forgotten meanwhile goes with it.
func (s *state) leave(c *call) {
	s.Release(c.session)
	if !c.session.Gone() {
		return
	}
	if _, accepted := c.ex.Committed(); accepted || c.session.Number() > 0 { // else there is nothing
		s.forget(c.session)
	}
}

// Destruct implements caddy.Destructor.
func (s *state) Destruct() error { return s.unpin() }

// lease is one configuration's share of a state.
type lease struct {
	key   string
	state *state
}

// acquire takes a share of the state under key and opens it if there is none.
func acquire(key string, open func() (*state, error)) (*lease, error) {
	v, _, err := states.LoadOrNew(key, func() (caddy.Destructor, error) {
		s, err := open()
		if err != nil {
			return nil, err // not a nil state in an interface
		}
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return &lease{key: key, state: v.(*state)}, nil
}

// release gives the share back.
func (l *lease) release() error {
	_, err := states.Delete(l.key)
	return err
}

// eachStore calls f for every open store until it returns false.
func eachStore(f func(*state) bool) {
	states.Range(func(_, v any) bool { return f(v.(*state)) })
}

// rest ends what is sent to boxes while nobody waits, or nobody any more.
func (s *state) rest() {
	s.detached.GiveUp()
	s.boxes.Range(func(_, v any) bool {
		v.(*warmer).stop()
		return true
	})
}
