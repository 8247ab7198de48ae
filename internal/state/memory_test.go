// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/clock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/overlay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/relay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// crowd is a state that conversations with distinct texts are put into.
type crowd struct {
	testing.TB
	*state.State
	random *rand.Rand
	edge   *retain.Engine
}

func newCrowd(t testing.TB, memory int64) *crowd {
	t.Helper()
	store, err := sessioncache.New(sessioncache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{t, state.New(shared.Process, store, nil, clock.Machine), rand.New(rand.NewPCG(1, 2)), nil}
	c.SetBudget(memory)
	options := &relay.Options{Origin: true}
	engines, err := relay.Of(c.State).Share(options)
	if err != nil {
		t.Fatal(err)
	}
	c.edge = engines.Of.Open(options)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// text is a text that no other has a part of.
func (c *crowd) text(n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%x ", c.random.Uint64())
	}
	return b.String()
}

// body is a request of some messages.
func (c *crowd) body(messages, bytes int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":"m","messages":[{"role":"system","content":"%s"}`, c.text(bytes))
	for i := range messages {
		fmt.Fprintf(&b, `,{"role":"%s","content":"%s"}`, []string{"user", "assistant"}[i%2], c.text(bytes))
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// session commits a request of a conversation, and returns its session.
func (c *crowd) session(tenant byte, id string, body []byte) *sessioncache.Session {
	c.Helper()
	v, err := wire.Parse(wire.OpenAIChat, body, nil)
	if err != nil {
		c.Fatal(err)
	}
	s := c.Acquire(c.Context(), sessioncache.Key{Tenant: sessioncache.Tenant{tenant}, Upstream: "u", ID: id})
	defer c.Release(s)
	s.Lock()
	defer s.Unlock()
	s.CountRequest(s.Commit(s.Match(v), v, sessioncache.NewBlockStates(len(v.Blocks))))
	return s
}

// attach has features hold something of a session.
func (c *crowd) attach(s *sessioncache.Session, body []byte) {
	c.Helper()
	c.overlay(s, body)
	c.retain(s, body)
	c.Blocks.Put(s, wire.Hash{1}, "text", string(body))
}

func (c *crowd) overlay(s *sessioncache.Session, body []byte) {
	c.Helper()
	t := s.Tenant()
	x, err := overlay.Of(c.State).Begin(overlay.Conversation{Session: s.ID(), Tenant: string(t[:]), Group: string(t[:])},
		overlay.Request{Format: wire.OpenAIChat, Body: body, Rules: overlay.LocalServer, At: time.Now()})
	if err != nil {
		c.Fatal(err)
	}
	x.Accept()
	x.Commit(&wire.Turn{Done: true}, false)
}

func (c *crowd) retain(s *sessioncache.Session, body []byte) {
	r := c.edge.Begin(c.key(s), &retain.Request{Body: body, History: []wire.Hash{{1}}})
	r.Retain(retain.Verdict{Handle: "h"})
	r.End()
}

func (c *crowd) key(s *sessioncache.Session) retain.Key {
	return retain.Key{Side: retain.Side{Tenant: s.Tenant(), Upstream: "u"}, Session: s.ID()}
}

// attached tells which features hold something of a session.
func (c *crowd) attached(s *sessioncache.Session) (all []string) {
	if len(overlay.Of(c.State).Report(s.ID())) > 0 {
		all = append(all, "overlays")
	}
	r := c.edge.Begin(c.key(s), &retain.Request{Body: []byte("{}"), History: []wire.Hash{{1}, {2}}})
	if r.Cause != retain.Unknown {
		all = append(all, "retained")
	}
	r.End()
	if _, ok := c.Blocks.Get(s, wire.Hash{1}, "text"); ok {
		all = append(all, "originals")
	}
	return all
}

// A session that is deleted, or gives way to others, takes everything along that is attached
// to it, and nothing else.
func TestSessionsTakeAttachmentsAlong(t *testing.T) {
	for name, remove := range map[string]func(c *crowd, s *sessioncache.Session){
		"deleted": func(c *crowd, s *sessioncache.Session) { c.Forget(c.Delete(s.ID())) },
		"evicted": func(c *crowd, s *sessioncache.Session) {
			for i := 0; c.Find(s.ID()) != nil; i++ {
				c.session(1, fmt.Sprint("another ", i), c.body(20, 40))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, memory.Min)
			gone, stays := c.body(2, 100), c.body(2, 100)
			a, b := c.session(1, "gone", gone), c.session(2, "stays", stays)
			c.attach(a, gone)
			c.attach(b, stays)
			if got := fmt.Sprint(c.attached(a)); got != "[overlays retained originals]" {
				t.Fatalf("%s are attached", got)
			}
			remove(c, a)
			if got := c.attached(a); len(got) > 0 {
				t.Errorf("%s are left of it", got)
			}
			if got := fmt.Sprint(c.attached(b)); got != "[overlays retained originals]" {
				t.Errorf("%s are left of another", got)
			}
		})
	}
}

// Another budget resizes the parts, and what fits stays.
func TestMemoryIsResized(t *testing.T) {
	c := newCrowd(t, 64<<20)
	var all []*sessioncache.Session
	for i := range 40 {
		body := c.body(4, 10_000)
		s := c.session(1, fmt.Sprint(i), body)
		c.retain(s, body)
		all = append(all, s)
	}
	before := c.Used(memory.Retained)
	if c.SetBudget(128 << 20); c.Used(memory.Retained) != before {
		t.Errorf("%d bytes are left of %d in a larger budget", c.Used(memory.Retained), before)
	}
	c.SetBudget(8 << 20)
	if got, limit := c.Used(memory.Retained), memory.Retained.Of(8<<20); got > limit || got < limit/2 {
		t.Errorf("%d bytes are left in a smaller budget, want up to %d", got, limit)
	}
	if got := c.attached(all[0]); len(got) > 0 {
		t.Errorf("%s are left of the session used first", got)
	}
	if got := fmt.Sprint(c.attached(all[len(all)-1])); got != "[retained]" {
		t.Errorf("%s are left of the session used last", got)
	}
}

// residentMemory returns the process's resident memory in bytes, 0 where Linux's /proc is missing.
func residentMemory() int64 {
	var size, resident int64
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}

// The live heap with full parts, and the growth of the resident memory, stay within 1.6 times the
// budget.
func TestFullPartsStayInTheirBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("fills the memory")
	}
	const total = 64 << 20
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	c := newCrowd(t, total)
	limit := budget.Of(shared.Process).Limit()
	budget.Of(shared.Process).Resize(memory.Bodies.Of(total))
	t.Cleanup(func() { budget.Of(shared.Process).Resize(limit) })
	before, residentBefore := heap(), residentMemory()
	// Each part is filled on its own: a session that is evicted takes attachments along.
	sessions := make([]*sessioncache.Session, 0, 200)
	for i := range 200 {
		sessions = append(sessions, c.session(byte(i), fmt.Sprint(i), c.body(20, 500)))
	}
	fill := func(part memory.Part, put func(i int)) {
		t.Helper()
		used, limit := func() int64 { return c.Used(part) }, part.Of(total)
		for i, last := 0, int64(-1); used() >= last && i < 1<<20; i++ { // until something gives way
			last = used()
			put(i)
		}
		if used() < limit*3/4 {
			t.Errorf("%d bytes of %d are filled", used(), limit)
		}
	}
	of := func(i int) *sessioncache.Session { return sessions[i%len(sessions)] }
	fill(memory.Overlays, func(i int) { c.overlay(of(i), c.body(20, 2000)) })
	fill(memory.Retained, func(i int) { c.retain(of(i), c.body(20, 2000)) })
	fill(memory.Originals, func(i int) { c.Blocks.Put(of(i), wire.Hash{1}, fmt.Sprint(i), c.text(3000)) })
	var bodies [][]byte
	for budget.Of(shared.Process).Used()+1<<20 < memory.Bodies.Of(total)*7/8 { // the rest is for small ones
		share := budget.Of(shared.Process).Open()
		if err := share.Grow(t.Context(), 1<<20); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(share.Close)
		bodies = append(bodies, make([]byte, 1<<20))
	}
	for i := 0; c.Stats().Evicted == 0 && i < 1<<20; i++ {
		c.session(byte(i), fmt.Sprint("more ", i), c.body(60, 40))
	}
	var used, may int64
	for _, p := range memory.Parts {
		switch p {
		case memory.Sessions, memory.Overlays, memory.Retained, memory.Originals, memory.Bodies:
			used, may = used+c.Used(p)+memory.Of(shared.Process).Used(p), may+p.Of(total)
		}
	}
	resident := residentMemory() - residentBefore // before the collection below
	live := heap() - before
	runtime.KeepAlive(bodies)
	t.Logf("%d bytes are accounted for of %d, %d live in the heap, and %d are resident", used, may, live, resident)
	if live > may*16/10 {
		t.Errorf("%d bytes live in the heap, want at most 1.6 × %d", live, may)
	}
	if resident > total*16/10 {
		t.Errorf("%d bytes are resident, want at most 1.6 × %d", resident, total)
	}
}
