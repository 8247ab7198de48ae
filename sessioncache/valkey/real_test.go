// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// realServer starts a server with client tracking, which miniredis lacks. It returns the address.
func realServer(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("valkey-server")
	if err != nil {
		program, err = exec.LookPath("redis-server")
	}
	if err != nil {
		t.Skip("neither Valkey nor Redis is installed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.CommandContext(t.Context(), program, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save",
		"", "--loglevel", "warning")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the context is over before
	return addr
}

func openReal(t *testing.T, addr, prefix string) *Valkey {
	t.Helper()
	v := Open(Options{Addresses: []string{addr}, Prefix: prefix, TTL: time.Hour})
	reached(t, v)
	return v
}

func TestConformsAtRealServer(t *testing.T) {
	addr := realServer(t)
	storetest.Shared(t, func(t *testing.T) sessioncache.Shared { return openReal(t, addr, t.Name()+":") })
}

// After the loss of its tracking connection, or of the server's tracking table, a client trusts no
// known version.
func TestToldNoMore(t *testing.T) {
	addr := realServer(t)
	v := openReal(t, addr, "t:")
	defer v.Close()
	c, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{addr}, DisableCache: true,
		ForceSingleClient: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := sessioncache.Record{Digest: sessioncache.Digest{1}, Snapshot: []byte("x")}
	have := sessioncache.Version(0)
	for _, trouble := range [][]string{
		{"CLIENT", "KILL", "TYPE", "normal"},
		{"FLUSHALL"},
		{"DEL", v.key(beginning(r.Digest))},
		{"SET", v.key(beginning(r.Digest)), "something else"},
	} {
		for { // the connection may have to be opened again
			w := &sessioncache.Swap{Record: r, Have: have, Next: sessioncache.NewVersion()}
			if v.Swap(t.Context(), []*sessioncache.Swap{w}); w.Err == nil && v.Unchanged(r.Digest, w.Next) {
				have = w.Next
				break
			}
			have, _ = 0, c.Do(t.Context(), c.B().Del().Key(v.key(beginning(r.Digest))).Build())
			if t.Context().Err() != nil {
				t.Fatalf("before %s: what was written is not known", trouble)
			}
			time.Sleep(time.Millisecond)
		}
		if err := c.Do(t.Context(), c.B().Arbitrary(trouble...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		for v.Unchanged(r.Digest, have) {
			if t.Context().Err() != nil {
				t.Fatalf("after %s: the session is still taken for what it was", trouble)
			}
			time.Sleep(time.Millisecond)
		}
	}
}
