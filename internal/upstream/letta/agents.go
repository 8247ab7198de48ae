// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package letta

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Agents are the agents of conversations at servers with the REST API. They live as long as the process; the zero
// value has none. All methods may be called from several goroutines.
type Agents struct {
	names func() (secret.Key, error) // key of their names at the server, the same after a restart

	mu    sync.Mutex
	pool  *lru.Pool[sessioncache.Tenant] // of agents, each of size 1
	known *lru.Cache[conversation, sessioncache.Tenant, *agent]
}

var _ state.Forgetter = (*Agents)(nil)

// Of returns the agents of a state.
func Of(s *state.State) *Agents {
	return state.Part(s, func() *Agents {
		return &Agents{names: sync.OnceValues(func() (secret.Key, error) { return option.LastingKey("agents") })}
	})
}

// limit sets the number of agents and their idle lifetime. Of several sites the last one opened decides.
func (s *Agents) limit(size int, life time.Duration, now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.pool = lru.NewPool[sessioncache.Tenant](int64(size))
		s.known = lru.New(lru.Options[conversation, sessioncache.Tenant, *agent]{
			Pool: s.pool, TTL: life, Now: now,
			InUse: func(e *lru.Entry[conversation, sessioncache.Tenant, *agent]) bool { return e.Value.users > 0 },
		})
		return
	}
	s.pool.SetLimit(int64(size))
	s.known.Lock()
	defer s.known.Unlock()
	s.known.SetTTL(life)
}

// conversation is the key of an agent.
type conversation struct {
	retain.Side
	session string    // its public id
	begins  wire.Hash // hash of the model and the first turn
}

// agent is one agent. Its turn guards the first fields: an agent does one thing at a time.
type agent struct {
	turn chan struct{} // has room for one

	id      string    // "" for not made yet
	prompt  wire.Hash // of the system prompt that it has
	last    string    // answer at the end of its conversation, "" for unknown
	preface bool      // its server takes no memory blocks: the prompt goes with a message
	dirty   bool      // its history may contain more than the conversation

	// With the lock of all:

	// The lock of the cache guards the fields below.
	users int
	shown Report
}

// Report is an operator's view of an agent.
type Report struct {
	// Agent is the id by which the server knows it.
	Agent string `json:"agent"`
	// Session is the public id of its session.
	Session string `json:"session"`
	// Prompt is a hash of its system prompt.
	Prompt string `json:"prompt"`
	// Preface reports that the prompt goes with the messages, since the server takes no memory blocks.
	Preface bool `json:"preface,omitempty"`
	// Busy reports that it is at work.
	Busy bool `json:"busy,omitempty"`
	// Expires is when it is forgotten unless it is used.
	Expires time.Time `json:"expires"`
}

func (s *Agents) take(ctx context.Context, k conversation) (*agent, error) {
	s.known.Lock()
	var a *agent
	if found := s.known.Get(k); found != nil {
		a = found.Value
		// Agents in use are not evicted, also while a request waits for its turn.
		a.users++
		s.known.Use(found)
	} else {
		// Nothing is known of its history yet.
		a = &agent{turn: make(chan struct{}, 1), dirty: true, users: 1}
		s.known.Put(k, k.Tenant, a, 1)
	}
	s.known.Unlock()
	select {
	case a.turn <- struct{}{}:
		return a, nil
	case <-ctx.Done():
		s.known.Lock()
		defer s.known.Unlock()
		a.users--
		return nil, ctx.Err()
	}
}

func (s *Agents) give(k conversation, a *agent) {
	s.known.Lock()
	a.users--
	if e := s.known.Get(k); e != nil && e.Value == a {
		s.known.Use(e)
	}
	// A copy, because reports must not wait for an agent's turn.
	a.shown = Report{Agent: a.id, Session: k.session, Prompt: hex.EncodeToString(a.prompt[:8]), Preface: a.preface}
	s.known.Unlock()
	<-a.turn
}

// Forget makes a deleted answer unusable as a base. Its agent is emptied before its next use.
func (s *Agents) Forget(side retain.Side, id string) {
	if id == "" || !s.lock() {
		return
	}
	defer s.known.Unlock()
	for e := range s.known.OldestOf(side.Tenant) {
		a := e.Value
		if e.Key.Side != side {
			continue
		}
		select {
		case a.turn <- struct{}{}:
			if a.last == id {
				a.last, a.dirty = "", true
			}
			<-a.turn
		// A busy agent is about to give another answer.
		default:
		}
	}
}

// ForgetSession implements [state.Forgetter]. At the server the agents stay: the next request of the
// session finds them by their names.
func (s *Agents) ForgetSession(x *sessioncache.Session) { s.forgetSession(x.Tenant(), x.ID()) }

func (s *Agents) forgetSession(t sessioncache.Tenant, id string) {
	if !s.lock() {
		return
	}
	defer s.known.Unlock()
	for e := range s.known.OldestOf(t) {
		if e.Key.session == id {
			s.known.Drop(e)
		}
	}
}

// claim assigns an agent found at the server to a conversation, unless another conversation has it.
func (s *Agents) claim(a *agent, id string) bool {
	s.known.Lock()
	defer s.known.Unlock()
	for other := range s.known.Oldest() {
		if other.Value != a && other.Value.shown.Agent == id {
			return false
		}
	}
	a.id, a.shown.Agent = id, id
	return true
}

func (s *Agents) name(a *agent, id string) {
	s.known.Lock()
	defer s.known.Unlock()
	a.id, a.shown.Agent = id, id
}

// Report returns the reports of all agents.
func (s *Agents) Report() []Report {
	all := []Report{}
	if !s.lock() {
		return all
	}
	defer s.known.Unlock()
	s.known.Expire()
	for e := range s.known.Oldest() {
		r := e.Value.shown
		if r.Agent == "" {
			continue
		}
		r.Session, r.Busy, r.Expires = e.Key.session, e.Value.users > 0, e.Expires().UTC()
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Report) int { return strings.Compare(a.Agent, b.Agent) })
	return all
}

// lock locks the agents, and reports whether any site has opened them.
func (s *Agents) lock() bool {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	if known == nil {
		return false
	}
	known.Lock()
	return true
}

// Those things are counted that befall agents.
const (
	// Events of agents.
	made      = "made"
	found     = "found"     // at the server, after a restart or an eviction of ours
	emptied   = "emptied"   // its conversation was another one
	updated   = "updated"   // it has another system prompt now
	prefaced  = "prefaced"  // its server takes no memory blocks
	forgotten = "forgotten" // by its server
)

var befallen = metric.CounterOf("letta_agents_total", "What has befallen agents of Letta that conversations have.",
	"event", made, found, emptied, updated, prefaced, forgotten)
