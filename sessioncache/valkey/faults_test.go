// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// gate is a listener before a server that can delay its responses.
type gate struct {
	net.Listener
	mu sync.Mutex // held while nothing passes
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			go func() { _, _ = io.Copy(s, c); _ = s.Close() }()
			go func() { _, _ = io.Copy(c, passing{g, s}); _ = c.Close() }()
		}
	}()
	return g
}

type passing struct {
	g *gate
	io.Reader
}

func (p passing) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	return n, err
}

// A server that is killed, paused, flushed or full costs no conversation that the
// process has in memory, and once it is well again others have all of it.
func TestServerInTrouble(t *testing.T) {
	for name, trouble := range map[string]func(m *miniredis.Miniredis, g *gate) (over func()){
		"killed":  func(m *miniredis.Miniredis, _ *gate) func() { m.Close(); return func() { _ = m.Restart() } },
		"paused":  func(_ *miniredis.Miniredis, g *gate) func() { g.mu.Lock(); return g.mu.Unlock },
		"flushed": func(m *miniredis.Miniredis, _ *gate) func() { m.FlushAll(); return func() {} },
		"full": func(m *miniredis.Miniredis, _ *gate) func() {
			m.SetError("OOM command not allowed when used memory > 'maxmemory'.")
			return func() { m.SetError("") }
		},
		"failing over": func(m *miniredis.Miniredis, _ *gate) func() {
			m.SetError("READONLY You can't write against a read only replica.")
			return func() { m.SetError("") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := miniredis.RunT(t)
			g := newGate(t, m.Addr())
			use := func() *sessioncache.Store {
				v := Open(Options{Addresses: []string{g.Addr().String()}, Prefix: "t:", TTL: time.Hour})
				reached(t, v)
				s, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
					Open:     func() (sessioncache.Backend, error) { return v, nil },
					Interval: 50 * time.Millisecond, Budget: 100 * time.Millisecond,
				}})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			store := use()
			body := `{"role":"user","content":"0"}`
			turn := func(i int) {
				v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+body+`]}`), nil)
				if err != nil {
					t.Fatal(err)
				}
				s := store.Acquire(t.Context(), sessioncache.Key{Tenant: sessioncache.Tenant{1}, Upstream: "u", ID: "s"})
				s.Lock()
				match := s.Match(v)
				if i > 0 && match.Conversation == nil {
					t.Errorf("request %d: the conversation is not known", i)
				}
				l := s.Commit(match, v, sessioncache.NewBlockStates(len(v.MessageBlocks())))
				s.CountRequest(l)
				s.Unlock()
				store.Keep(s)
				store.Publish(s)
				store.Release(s)
				body += fmt.Sprintf(`,{"role":"assistant","content":"a%d"},{"role":"user","content":"u%d"}`, i, i)
			}
			for i := range 3 {
				turn(i)
			}
			over := trouble(m, g)
			for i := range 5 {
				turn(3 + i)
			}
			over()
			for i := 8; ; i++ { // until it is used again
				turn(i)
				if _, ok, err := store.Persister().Backend().(*Valkey).Named(t.Context(),
					beginning(sessioncache.Key{Tenant: sessioncache.Tenant{1}, Upstream: "u", ID: "s"}.Digest())); ok && err == nil {
					break
				}
				if t.Context().Err() != nil {
					t.Fatal("the server is not used again")
				}
				time.Sleep(50 * time.Millisecond)
			}
			if err := store.Close(); err != nil { // the end writes all pending changes
				t.Error(err)
			}
			other := use()
			defer other.Close()
			s := other.Acquire(t.Context(), sessioncache.Key{Tenant: sessioncache.Tenant{1}, Upstream: "u", ID: "s"})
			v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+body+`]}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Lock()
			defer s.Unlock()
			if match := s.Match(v); match.Conversation == nil || match.Common < len(v.MessageBlocks())-2 {
				t.Errorf("another process knows %d blocks of %d", match.Common, len(v.MessageBlocks()))
			}
		})
	}
}
