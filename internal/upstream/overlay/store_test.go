// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func TestStoreForgets(t *testing.T) {
	c := newClient(t, LocalServer)
	body := chat("S", toolA+","+toolB, hello)
	for i := range 3 * maxConversations {
		c.send(chat("S", toolA, fmt.Sprintf(`{"role":"user","content":"%d"}`, i)), wire.Turn{})
	}
	if n := len(c.store.conversationsOf("s")); n != maxConversations {
		t.Errorf("%d conversations", n)
	}
	c.send(body, wire.Turn{})
	c.now = c.now.Add(maxIdle + time.Hour)
	if got := c.begin(chat("S", toolB+","+toolA, hello)); got.before != nil {
		t.Error("remembers for ever")
	}
	c.key = "t"
	c.send(body, wire.Turn{})
	if s := c.store.sessions; s.Len() != 1 || s.Bytes() <= 0 || s.Bytes() > 100_000 {
		t.Errorf("%d sessions, %d bytes", s.Len(), s.Bytes())
	}
}

// TestStoreIsShared: conversations and bases are weighed, and one tenant cannot evict another's.
func TestStoreIsShared(t *testing.T) {
	const limit = 256 << 10
	c := newClient(t, LocalServer)
	c.open(limit)
	c.tenant, c.key = "modest", "modest"
	c.send(chat("S", toolA+","+toolB, hello), wire.Turn{})
	c.tenant = "greedy"
	long := strings.Repeat("x", 8<<10)
	for i := range 100 {
		c.key = fmt.Sprint("greedy ", i)
		c.begin(chat(fmt.Sprint(i, long), toolA, hello)).Commit(&wire.Turn{Done: true}, false)
		if n := c.store.pool.Bytes(); n > limit {
			t.Fatalf("%d bytes are held, want at most %d", n, limit)
		}
	}
	if n := c.store.pool.Bytes(); n < limit/2 {
		t.Errorf("a tenant alone in nearly all of the room holds %d bytes of %d", n, limit)
	}
	c.begin(chat(strings.Repeat(long, 48), toolA, hello)).Commit(&wire.Turn{Done: true}, false)
	if n := c.store.pool.Bytes(); n > limit {
		t.Errorf("%d bytes are held with a base larger than the store, want at most %d", n, limit)
	}
	c.tenant, c.key = "modest", "modest"
	if x := c.begin(chat("S", toolB+","+toolA, hello)); x.before == nil || names(string(x.Body)) != "AB" {
		t.Error("somebody else's conversation was pushed out")
	}
	c.key = "another"
	if x := c.begin(chat("S", toolB+","+toolA, hello)); x.before != nil || names(string(x.Body)) != "AB" {
		t.Error("somebody else's base was pushed out")
	}
}

// TestNothingIsKeptOfWhatIsNotAccepted: the store keeps nothing of a request before the upstream
// accepts it.
func TestNothingIsKeptOfWhatIsNotAccepted(t *testing.T) {
	c := newClient(t, LocalServer)
	for i := range 3 {
		c.begin(chat(fmt.Sprint(i), toolA+","+toolB, hello))
	}
	if n, b := c.store.sessions.Len(), c.store.bases.Len(); n+b > 0 {
		t.Errorf("%d sessions, %d bases", n, b)
	}
	x := c.begin(chat("S", toolA+","+toolB, hello))
	x.Accept()
	c.key = "another"
	if x := c.begin(chat("S", toolB+","+toolA, hello)); x.before != nil || names(string(x.Body)) != "AB" {
		t.Errorf("what was accepted is not shared: %s", x.Body)
	}
}
