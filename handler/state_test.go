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
	"errors"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

func init() {
	caddy.RegisterModule(App{})
	caddy.RegisterModule(Handler{})
	caddy.RegisterModule(MemoryStore{})
}

// closing counts how often a store was closed.
type closing struct {
	sessioncache.Store
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return nil
}

func TestStateClosesAfterTheLastRequest(t *testing.T) {
	store := new(closing)
	open := func() (*state, error) { return newState(store, nil), nil }
	a, err := acquire("test", open)
	if err != nil {
		t.Fatal(err)
	}
	b, err := acquire("test", func() (*state, error) { return nil, errors.New("opened twice") })
	if err != nil || a.state != b.state {
		t.Fatalf("two states, %v", err)
	}
	s := a.state
	if !s.pin() {
		t.Fatal("closed too early")
	}
	for _, l := range []*lease{a, b} {
		if err := l.release(); err != nil {
			t.Fatal(err)
		}
	}
	if store.closed != 0 {
		t.Error("closed under a request")
	}
	if !s.pin() {
		t.Error("no second request may begin while one runs")
	}
	_ = s.unpin()
	_ = s.unpin()
	if store.closed != 1 {
		t.Errorf("closed %d times", store.closed)
	}
	if s.pin() {
		t.Error("a closed store was pinned")
	}
	if _, ok := states.References("test"); ok {
		t.Error("the pool still holds it")
	}
}

func TestStateThatDoesNotOpen(t *testing.T) {
	failed := errors.New("failed")
	if _, err := acquire("bad", func() (*state, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	l, err := acquire("bad", func() (*state, error) { return newState(new(closing), nil), nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := l.release(); err != nil {
		t.Error(err)
	}
}

// TestValidateLeavesNothing: `caddy validate` provisions a configuration and
// must give back all that it took, also where it finds a mistake.
func TestValidateLeavesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		handler string
		ok      bool
	}{
		"defaults":       {`{"handler":"llm_cache"}`, true},
		"off":            {`{"handler":"llm_cache","policy":"off"}`, true},
		"bad policy":     {`{"handler":"llm_cache","policy":"greedy"}`, false},
		"bad zone":       {`{"handler":"llm_cache","zones":{"hot":0}}`, false},
		"bad preset":     {`{"handler":"llm_cache","upstream":{"preset":"x"}}`, false},
		"bad format":     {`{"handler":"llm_cache","upstream":{"format":"morse"}}`, false},
		"bad ttl":        {`{"handler":"llm_cache","upstream":{"cache_ttl":"1ms"}}`, false},
		"bad write":      {`{"handler":"llm_cache","upstream":{"cache_write":-1}}`, false},
		"bad window":     {`{"handler":"llm_cache","upstream":{"context_window":0}}`, false},
		"bad body":       {`{"handler":"llm_cache","max_body":2147483648}`, false},
		"negative body":  {`{"handler":"llm_cache","max_body":-1}`, false},
		"bad header":     {`{"handler":"llm_cache","session_header":"a b"}`, false},
		"bad health":     {`{"handler":"llm_cache","health":"x"}`, false},
		"unknown member": {`{"handler":"llm_cache","strip_thoughts":{}}`, false},
	} {
		cfg := new(caddy.Config)
		raw := `{"admin":{"disabled":true},"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[{"handle":[` + test.handler + `]}]}}}}}`
		if err := caddy.StrictUnmarshalJSON([]byte(raw), cfg); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(cfg); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
		states.Range(func(key, _ any) bool {
			t.Errorf("%s: state %v is still open", name, key)
			return true
		})
	}
}

func TestMemoryStoreLimits(t *testing.T) {
	for _, m := range []MemoryStore{{MaxSize: 1}, {MaxSize: -1}, {IdleTTL: 1}, {IdleTTL: -1}} {
		if err := m.Provision(caddy.Context{}); err == nil {
			t.Errorf("%+v was accepted", m)
		}
	}
	m := new(MemoryStore)
	if err := m.Provision(caddy.Context{}); err != nil || m.MaxSize != sessioncache.DefaultMaxBytes || m.IdleTTL != caddy.Duration(sessioncache.DefaultIdleTTL) {
		t.Errorf("defaults are %+v, %v", m, err)
	}
}
