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
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Agents are the agents that conversations have at servers with the REST API. They live
// as long as the process; the zero value has none. All methods may be called from several
// goroutines.
type Agents struct {
	mu    sync.Mutex
	known *lru.Cache[conversation, sessioncache.Tenant, *agent]
}

// conversation is what an agent is for.
type conversation struct {
	retain.Side
	session string    // its public id
	begins  wire.Hash // of the model, and of what was said first
}

// agent is one of them. An agent is one conversation and does one thing at a time: what
// is known of it belongs to whoever has its turn.
type agent struct {
	turn chan struct{} // has room for one

	id      string    // "" for not made yet
	prompt  wire.Hash // of the system prompt that it has
	last    string    // the answer that its conversation ends with, "" for nobody knows
	preface bool      // its server takes no memory blocks: the prompt goes with a message
	dirty   bool      // it may have said and heard things that are not of the conversation

	// For who looks on, with the lock of all.

	users int
	until time.Time
	shown Report
}

// Report is what an operator may see of an agent.
type Report struct {
	// Agent is the id by which the server knows it.
	Agent string `json:"agent"`
	// Session is the public id of the session that it is for.
	Session string `json:"session"`
	// Prompt is a hash of the system prompt that it has.
	Prompt string `json:"prompt"`
	// Preface reports that the prompt goes with the messages, since the server takes no
	// memory blocks.
	Preface bool `json:"preface,omitempty"`
	// Busy reports that it is at work.
	Busy bool `json:"busy,omitempty"`
	// Expires is when it is forgotten unless it is used.
	Expires time.Time `json:"expires"`
}

// bounds are for how many agents are known, and for how long one that nobody uses.
type bounds struct {
	most int
	life time.Duration
	now  func() time.Time
}

// take waits for the turn of a conversation's agent.
func (s *Agents) take(ctx context.Context, k conversation, b bounds) (*agent, error) {
	s.mu.Lock()
	s.expire(b.now())
	found := s.known.Get(k)
	if found == nil {
		found = s.known.Put(k, k.Tenant, &agent{turn: make(chan struct{}, 1), dirty: true}, 1)
	}
	a := found.Value
	s.known.Use(found)
	a.users++
	a.until = b.now().Add(b.life)
	s.trim(int64(b.most))
	s.mu.Unlock()
	select {
	case a.turn <- struct{}{}:
		return a, nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		a.users--
		return nil, ctx.Err()
	}
}

// give ends the turn.
func (s *Agents) give(k conversation, a *agent, b bounds) {
	s.mu.Lock()
	a.users--
	a.until = b.now().Add(b.life)
	a.shown = Report{Agent: a.id, Session: k.session, Prompt: hex.EncodeToString(a.prompt[:8]), Preface: a.preface}
	s.mu.Unlock()
	<-a.turn
}

// Forget has nothing go on any more from an answer that an agent of a tenant's has given, which
// empties it before it is used again. One that is at work is about to give another.
func (s *Agents) Forget(side retain.Side, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || id == "" {
		return
	}
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
		default:
		}
	}
}

// claim makes an agent that was found at the server that of a conversation, unless it is
// another's.
func (s *Agents) claim(a *agent, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.known.Oldest() {
		if other.Value != a && other.Value.shown.Agent == id {
			return false
		}
	}
	a.id, a.shown.Agent = id, id
	return true
}

// name takes down the id of an agent that has just been made.
func (s *Agents) name(a *agent, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.id, a.shown.Agent = id, id
}

// Report tells of all agents.
func (s *Agents) Report(now time.Time) []Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	all := []Report{}
	for e := range s.known.Oldest() {
		r := e.Value.shown
		if r.Agent == "" {
			continue
		}
		r.Session, r.Busy, r.Expires = e.Key.session, e.Value.users > 0, e.Value.until.UTC()
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Report) int { return strings.Compare(a.Agent, b.Agent) })
	return all
}

// The methods below are called with the lock held.

// expire forgets who has been idle for too long.
func (s *Agents) expire(now time.Time) {
	if s.known == nil {
		s.known = lru.New[conversation, sessioncache.Tenant, *agent]()
	}
	for old := range s.known.Oldest() {
		if old.Value.users == 0 && !old.Value.until.After(now) {
			s.known.Drop(old)
		}
	}
}

// trim makes room: whoever has most agents gives of them first. Those at work stay.
func (s *Agents) trim(most int64) {
	for s.known.Bytes() > most {
		of, _ := s.known.Heaviest()
		if !s.dropIdle(s.known.OldestOf(of)) && !s.dropIdle(s.known.Oldest()) {
			return
		}
	}
}

func (s *Agents) dropIdle(of func(func(*lru.Entry[conversation, sessioncache.Tenant, *agent]) bool)) bool {
	for old := range of {
		if old.Value.users == 0 {
			s.known.Drop(old)
			return true
		}
	}
	return false
}

// Those things are counted that befall agents.
const (
	made      = "made"
	found     = "found"     // at the server, after a restart or an eviction of ours
	emptied   = "emptied"   // its conversation was another one
	updated   = "updated"   // it has another system prompt now
	prefaced  = "prefaced"  // its server takes no memory blocks
	forgotten = "forgotten" // by its server
)

var befallen = metric.CounterOf("letta_agents_total", "What has befallen agents of Letta that conversations have.", "event", made, found, emptied, updated, prefaced, forgotten)
