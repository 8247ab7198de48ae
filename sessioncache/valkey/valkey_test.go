// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// servers has a server for each test.
func servers() func(t *testing.T) *miniredis.Miniredis {
	all := map[*testing.T]*miniredis.Miniredis{}
	return func(t *testing.T) *miniredis.Miniredis {
		if all[t] == nil {
			all[t] = miniredis.RunT(t)
		}
		return all[t]
	}
}

// open uses a server, and waits until it is reached.
func open(t *testing.T, m *miniredis.Miniredis) *Valkey {
	t.Helper()
	v := Open(Options{Addresses: []string{m.Addr()}, Prefix: "t:", TTL: time.Hour})
	reached(t, v)
	return v
}

func reached(t *testing.T, v *Valkey) {
	t.Helper()
	if !v.Reached(t.Context()) {
		t.Fatal("the server is not reached")
	}
}

func TestConforms(t *testing.T) {
	server := servers()
	storetest.Shared(t, func(t *testing.T) sessioncache.Shared { return open(t, server(t)) })
}

func TestStoreConforms(t *testing.T) {
	storetest.Store(t, func(t *testing.T) *sessioncache.Store {
		v := open(t, miniredis.RunT(t))
		s, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
			Open:   func() (sessioncache.Backend, error) { return v, nil },
			Budget: time.Minute, Failed: func(what string, err error) { t.Errorf("%s: %v", what, err) },
		}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// All keys expire, deleted sessions included.
func TestRunsOut(t *testing.T) {
	m := miniredis.RunT(t)
	v := open(t, m)
	defer v.Close()
	for i := range 3 {
		r := sessioncache.Record{
			Digest: sessioncache.Digest{byte(i + 1)}, Answers: []sessioncache.Digest{{9, byte(i)}},
			Snapshot: []byte("x"),
		}
		if err := v.Save(t.Context(), []sessioncache.Record{r}); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Delete(t.Context(), sessioncache.Digest{1}); err != nil {
		t.Fatal(err)
	}
	if n := len(m.Keys()); n != 6 {
		t.Errorf("%d keys: %q", n, m.Keys())
	}
	m.FastForward(2 * time.Hour)
	if n := len(m.Keys()); n != 0 {
		t.Errorf("%d keys are left: %q", n, m.Keys())
	}
}

// Answers that are known to be at the server are written again where it has lost them.
func TestKnownAnswers(t *testing.T) {
	m := miniredis.RunT(t)
	v := open(t, m)
	defer v.Close()
	r := sessioncache.Record{
		Digest: sessioncache.Digest{1}, Answers: []sessioncache.Digest{{2}, {3}},
		Snapshot: []byte("x"),
	}
	have := sessioncache.Version(0)
	write := func() {
		t.Helper()
		w := &sessioncache.Swap{Record: r, Have: have, Next: sessioncache.NewVersion()}
		v.Swap(t.Context(), []*sessioncache.Swap{w})
		if w.Err != nil || w.Now != w.Next {
			t.Fatalf("version %d, not %d: %v", w.Now, w.Next, w.Err)
		}
		have, r.Known = w.Next, r.Answers
	}
	for i, lost := range []bool{false, true} {
		if lost {
			m.FlushAll()
		}
		write()
		r.Answers = append([]sessioncache.Digest{{byte(4 + i)}}, r.Answers...)
		write()
		for _, a := range r.Answers {
			if d, ok, err := v.Answered(t.Context(), a); err != nil || !ok || d != r.Digest {
				t.Errorf("lost %t: answer %x is of %x, %t: %v", lost, a, d, ok, err)
			}
		}
	}
}

// All clients of a server share one secret, and write it again after a loss.
func TestSecret(t *testing.T) {
	m := miniredis.RunT(t)
	o := Options{Addresses: []string{m.Addr()}, Prefix: "t:", TTL: time.Hour}
	first, err := Secret(t.Context(), &o, secret.Key{1})
	if err != nil || first != (secret.Key{1}) {
		t.Fatalf("%x, %v", first, err)
	}
	second, err := Secret(t.Context(), &o, secret.Key{2})
	if err != nil || second != first {
		t.Fatalf("%x, %v", second, err)
	}
	m.FlushAll()
	o.Secret = first
	v := Open(o)
	defer v.Close()
	for !m.Exists("t:secret") {
		if t.Context().Err() != nil {
			t.Fatal("it was not put back")
		}
		time.Sleep(time.Millisecond)
	}
	if again, err := Secret(t.Context(), &o, secret.Key{3}); err != nil || again != first {
		t.Errorf("%x, %v", again, err)
	}
}

// Errors of single keys are distinguished from errors of the whole server.
func TestErrorsOfKeysAndServers(t *testing.T) {
	for answer, unavailable := range map[string]bool{
		"OOM command not allowed when used memory > 'maxmemory'.":           false,
		"WRONGTYPE Operation against a key holding the wrong kind of value": false,
		"READONLY You can't write against a read only replica.":             false,
		"CLUSTERDOWN The cluster is down":                                   true,
		"CLUSTERDOWN Hash slot not served":                                  true,
		"LOADING Redis is loading the dataset in memory":                    true,
		"TRYAGAIN Multiple keys request during rehashing of slot":           true,
	} {
		m := miniredis.RunT(t)
		v := open(t, m)
		m.SetError(answer)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := v.Load(ctx, sessioncache.Digest{1})
		cancel()
		if err == nil || sessioncache.IsSlow(err) != unavailable {
			t.Errorf("%s: got %v, of the server: %t, want %t", answer, err, sessioncache.IsSlow(err), unavailable)
		}
		m.SetError("")
		_ = v.Close()
	}
}

// A server that comes late is used from then on.
func TestLateServer(t *testing.T) {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	addr := m.Addr()
	m.Close()
	v := Open(Options{Addresses: []string{addr}, Prefix: "t:", TTL: time.Hour})
	defer v.Close()
	if _, err := v.Load(t.Context(), sessioncache.Digest{1}); !errors.Is(err, ErrUnreached) {
		t.Errorf("%v", err)
	}
	if err := m.StartAddr(addr); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	reached(t, v)
	if _, err := v.Load(t.Context(), sessioncache.Digest{1}); err != nil {
		t.Error(err)
	}
}

// A password is asked for, and shows in no error.
func TestPassword(t *testing.T) {
	m := miniredis.RunT(t)
	m.RequireAuth("right")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := Secret(ctx, &Options{Addresses: []string{m.Addr()}, Password: "wrong-and-secret"},
		secret.Key{1}); err == nil {
		t.Error("a wrong password is accepted")
	} else if s := err.Error(); len(s) == 0 || strings.Contains(s, "wrong-and-secret") {
		t.Errorf("%q", s)
	}
	if _, err := Secret(ctx, &Options{Addresses: []string{m.Addr()}, Password: "right"}, secret.Key{1}); err != nil {
		t.Error(err)
	}
}
