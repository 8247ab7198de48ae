// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"fmt"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// SimulatorConfig configures a [Simulator]. The zero value is ready to use.
type SimulatorConfig struct {
	// Rules gives the rules for the model that a request names. Default: Lookup
	// with the provider inferred from the name.
	Rules func(model string, at time.Time) Rules
	// SharedSlots lets all credentials use the same slots of the KV regime, as a
	// box without accounts does. By default each has its own, so that
	// conversations replayed side by side do not depend on each other's timing.
	SharedSlots bool
	// MaxAccounts bounds the pairs of credential and model that are remembered.
	// The one not used for longest is forgotten. Default: 1024.
	MaxAccounts int
}

// Call is one request to a simulated provider.
type Call struct {
	// View is the request as the provider receives it.
	View *wire.View
	// Client is the request as the client made it, before any edit. Its last assistant message is the model's own
	// answer, which the provider knows and View may no longer show. Optional: without it, edits of an answer's text
	// or calls in front of later thinking of the same answer go unnoticed when they are made before the answer is
	// first sent back.
	Client *wire.View
	// Credential is the request's tenant. Caches are never shared between credentials. Only a hash is kept.
	Credential string
	// Conversation tells conversations of one credential apart, to know which
	// request an answer was given to. Default: the session that the body names,
	// or else its first message.
	Conversation string
	// At is when the request starts.
	At time.Time
}

// Simulator applies the cache rules of a provider to a stream of requests. It is
// safe for concurrent use.
type Simulator struct {
	cfg      SimulatorConfig
	mu       sync.Mutex
	clock    uint64
	accounts map[accountKey]*account
}

type accountKey struct {
	credential wire.Hash
	model      string
}

// account is a provider's memory for one credential and model.
type account struct {
	mu      sync.Mutex
	entries entries
	sweepAt int // number of entries at which expired ones are dropped
	engine  engine
	past    past
	counts  counts
	used    uint64
}

const (
	defaultAccounts = 1024
	firstSweep      = 4096
	// sweepMargin keeps ended entries for callers with clocks that differ by more than a second.
	sweepMargin = time.Hour
)

// NewSimulator returns a simulator with empty caches.
func NewSimulator(cfg SimulatorConfig) *Simulator {
	if cfg.Rules == nil {
		cfg.Rules = func(model string, at time.Time) Rules { return Lookup("", model, at) }
	}
	if cfg.MaxAccounts <= 0 {
		cfg.MaxAccounts = defaultAccounts
	}
	return &Simulator{cfg: cfg, accounts: make(map[accountKey]*account)}
}

// Count returns the length of a prompt in tokens, as the counting endpoint would
// give it and as usages sum up to it.
func (s *Simulator) Count(v *wire.View) int64 {
	return render(v, s.cfg.Rules(v.Model, Collected()), nil, nil).size()
}

// Begin judges a request and bills its prompt. A request that the provider refuses changes nothing. The entries of
// an accepted one can be read by others only after [Run.FirstByte].
func (s *Simulator) Begin(c Call) (*Run, *APIError) {
	r := s.cfg.Rules(c.View.Model, c.At)
	marks, err := validate(c.View, r)
	if err != nil {
		return nil, err
	}
	if err := unaltered(c); err != nil {
		return nil, err
	}
	a := s.account(c, r)
	a.mu.Lock()
	defer a.mu.Unlock()
	seen, err := a.past.check(c, r)
	if err != nil {
		return nil, err
	}
	p := render(c.View, r, seen.drop, a.counts)
	// The window counts the rendered prompt: omitted thinking takes no room.
	if size := p.size(); r.ContextWindow > 0 && size > int64(r.ContextWindow) {
		return nil, invalid(fmt.Sprintf("prompt is too long: %d tokens > %d maximum", size, r.ContextWindow))
	}
	// From here on the request is accepted, and only accepted ones leave traces.
	a.past.accept(seen)
	run := &Run{account: a, started: c.At, slot: -1, dropped: seen.drop}
	var b bill
	switch r.Regime {
	case Markers:
		b = a.entries.billMarkers(p, r, c.At, place(p, marks))
	case Automatic:
		b = a.entries.billAutomatic(p, r, c.At)
	case Breakpoints:
		b = a.entries.billBreakpoints(p, r, c.At)
	default:
		b, run.slot = a.engine.bill(p, r)
		// Without this a request that starts before the first byte could take the same slot.
		a.engine.take(run.slot)
		run.prompt = p
	}
	run.usage, run.writes = b.usage, b.writes
	return run, nil
}

func (s *Simulator) account(c Call, r Rules) *account {
	k := accountKey{model: parseName(c.View.Model).model}
	// A zero credential stands for everybody.
	if r.Regime != KV || !s.cfg.SharedSlots {
		k.credential = hashOf(c.Credential)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	a := s.accounts[k]
	if a == nil {
		if len(s.accounts) >= s.cfg.MaxAccounts {
			s.forget()
		}
		a = &account{entries: make(entries), sweepAt: firstSweep, counts: make(counts)}
		s.accounts[k] = a
	}
	a.used = s.clock
	return a
}

func (s *Simulator) forget() {
	var oldest accountKey
	first := true
	for k, a := range s.accounts {
		if first || a.used < s.accounts[oldest].used {
			oldest, first = k, false
		}
	}
	delete(s.accounts, oldest)
}

// Run is a request that was accepted.
type Run struct {
	account *account
	started time.Time
	usage   wire.Usage
	writes  []write
	prompt  *prompt // KV only
	slot    int
	dropped []bool
}

// Usage returns the bill of the prompt, in exclusive buckets. Output is 0: the caller adds the answer.
func (r *Run) Usage() wire.Usage { return r.usage }

// Dropped returns the indexes of the view's blocks that the provider left out,
// because their thinking belongs elsewhere and the request asked for that instead
// of an error.
func (r *Run) Dropped() []int {
	var blocks []int
	for i, drop := range r.dropped {
		if drop {
			blocks = append(blocks, i)
		}
	}
	return blocks
}

// FirstByte makes the request's entries visible from that time on. Without it the request writes nothing, as when
// an answer fails before it begins. Calling it again changes nothing.
func (r *Run) FirstByte(at time.Time) {
	a := r.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.prompt != nil {
		a.engine.store(r.slot, r.prompt)
		r.prompt = nil
	}
	for _, w := range r.writes {
		a.entries.put(w, r.started, at)
	}
	r.writes = nil
	a.sweep(at)
}

// sweep drops expired entries.
func (a *account) sweep(at time.Time) {
	if len(a.entries) < a.sweepAt {
		return
	}
	for k, e := range a.entries {
		if e.until.Add(sweepMargin).Before(at) {
			delete(a.entries, k)
		}
	}
	// Doubling keeps the cost per write constant, however many entries are alive.
	a.sweepAt = max(firstSweep, 2*len(a.entries))
}
