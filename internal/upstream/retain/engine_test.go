// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package retain_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// driver sends the bytes after the base's body. Its handles can be used once if once is set.
type driver struct{ once bool }

func (driver) Name() string { return "test" }
func (d driver) Once() bool { return d.once }
func (driver) Delta(base *retain.Base, r *retain.Request) ([]byte, int) {
	if base == nil {
		return []byte("all: " + string(r.Body)), 0
	}
	rest, ok := bytes.CutPrefix(r.Body, base.Body)
	if !ok {
		return nil, 0
	}
	return append([]byte(base.Handle+": "), rest...), len(base.Body)
}
func (driver) Dress(http.Header, retain.Key, *retain.Base, []byte)    {}
func (driver) Hear(*retain.Request, bool) retain.Ear                  { return nil }
func (driver) Read(bool, int, http.Header, []byte) (v retain.Verdict) { return v }

// bench is an engine with a clock of its own.
type bench struct {
	*testing.T
	*retain.Engine
	now time.Time
}

func newBench(t *testing.T, once bool, memory int64) *bench {
	b := &bench{T: t, now: time.Unix(1e9, 0)}
	b.Engine = retain.New(driver{once}, lru.NewPool[sessioncache.Tenant](memory), time.Hour,
		func() time.Time { return b.now })
	return b
}

func key(tenant byte, session string, conversation byte) retain.Key {
	return retain.Key{
		Side: retain.Side{Tenant: sessioncache.Tenant{tenant}, Upstream: "u"}, Session: session,
		Conversation: wire.Hash{conversation},
	}
}

func hashes(s string) (all []wire.Hash) {
	for _, c := range []byte(s) {
		all = append(all, wire.Hash{c})
	}
	return all
}

// expect begins a turn with a history of the body's bytes, and checks its delta and cause.
func (b *bench) expect(k retain.Key, body, delta string, why retain.Cause) *retain.Transfer {
	b.Helper()
	t := b.Begin(k, &retain.Request{Body: []byte(body), History: hashes(body)})
	if string(t.Delta) != delta || t.Cause != why {
		b.Errorf("%q goes as %q, cause %q, want %q, %q", body, t.Delta, t.Cause, delta, why)
	}
	return t
}

// retains does the same, and retains the request under a handle.
func (b *bench) retains(k retain.Key, body, delta string, why retain.Cause, handle string) {
	b.Helper()
	t := b.expect(k, body, delta, why)
	t.Retain(retain.Verdict{Handle: handle})
	t.End()
}

// TestDecide: a delta continues only the state retained for the same conversation, tenant and
// upstream.
func TestDecide(t *testing.T) {
	b := newBench(t, false, 1<<20)
	k := key(1, "s", 1)
	b.retains(k, "ab", "", retain.Unknown, "h1")
	b.retains(k, "abc", "h1: c", "", "h2")
	b.expect(k, "abcd", "h2: d", "").End()
	b.expect(k, "abxd", "", retain.Diverged).End()
	b.expect(k, "ab", "", retain.Diverged).End()
	b.expect(key(1, "s", 2), "abce", "h2: e", "").End()     // another conversation of the session
	b.expect(key(1, "t", 1), "abce", "all: abce", "").End() // the upstream is known
	b.expect(key(2, "s", 1), "abcd", "", retain.Unknown).End()
	turn := b.Begin(k, &retain.Request{Body: []byte("abcd"), History: hashes("abcd"), WritesEntry: true})
	if turn.Cause != retain.WritesEntry || turn.Delta != nil {
		t.Errorf("a marker amid the history: %q, %q", turn.Delta, turn.Cause)
	}
	turn.End()
	other := k
	other.Upstream = "v"
	b.expect(other, "abcd", "", retain.Unknown).End()

	turn = b.Begin(k, &retain.Request{Body: []byte("abcd"), History: hashes("abcd"), Bound: wire.Hash{1}})
	if turn.Cause != retain.Bound || turn.Delta != nil {
		t.Errorf("another model: %q, %q", turn.Delta, turn.Cause)
	}
	turn.Retain(retain.Verdict{Handle: "h3", History: hashes("abcdA")}) // with the answer
	turn.End()
	b.expect(k, "abcdA", "", retain.Bound).End()
	turn = b.Begin(k, &retain.Request{Body: []byte("abcdB"), History: hashes("abcdB"), Bound: wire.Hash{1}})
	if turn.Cause != retain.Diverged {
		t.Errorf("another answer: %q", turn.Cause)
	}
	turn.End()
	turn = b.Begin(k, &retain.Request{Body: []byte("abcdAe"), History: hashes("abcdAe"), Bound: wire.Hash{1}})
	if string(turn.Delta) != "h3: Ae" {
		t.Errorf("the same answer: %q, %q", turn.Delta, turn.Cause)
	}
	turn.End()
}

// TestMiss: a state that turns out not to be retained is forgotten, and no other state.
func TestMiss(t *testing.T) {
	b := newBench(t, false, 1<<20)
	k, sister := key(1, "s", 1), key(1, "s", 2)
	b.retains(k, "ab", "", retain.Unknown, "h1")
	b.retains(sister, "abc", "h1: c", "", "h2")
	turn := b.expect(k, "abd", "h1: d", "")
	turn.Miss("gone")
	if turn.Delta != nil || turn.Cause != "gone" {
		t.Errorf("%q, %q", turn.Delta, turn.Cause)
	}
	turn.End()
	b.expect(sister, "abce", "h2: e", "").End()
	b.expect(k, "abcd", "h2: d", "").End()

	// A late miss does not remove a state retained in the meantime.
	late := b.expect(sister, "abcf", "h2: f", "")
	b.retains(sister, "abce", "h2: e", "", "h3")
	late.Miss("gone")
	late.End()
	b.expect(sister, "abceg", "h3: g", "").End()

	// The upstream is another server: all its states are forgotten.
	foreign := b.expect(sister, "abceg", "h3: g", "")
	foreign.Miss(retain.Foreign)
	foreign.End()
	b.expect(sister, "abceg", "", retain.Unknown).End()
}

// TestForget: answers deleted by a client are not continued, other clients' answers are.
func TestForget(t *testing.T) {
	b := newBench(t, false, 1<<20)
	for _, k := range []retain.Key{key(1, "s", 1), key(1, "r", 2), key(2, "s", 1)} {
		turn := b.Begin(k, &retain.Request{Body: []byte("ab"), History: hashes("ab")})
		turn.Retain(retain.Verdict{Handle: "h" + string(rune('0'+k.Conversation[0]))})
		turn.End()
	}
	b.Forget(retain.Side{Tenant: sessioncache.Tenant{1}, Upstream: "v"}, "h1")
	b.Forget(retain.Side{Tenant: sessioncache.Tenant{1}, Upstream: "u"}, "h")
	b.expect(key(1, "s", 1), "abc", "h1: c", "").End()
	b.Forget(retain.Side{Tenant: sessioncache.Tenant{1}, Upstream: "u"}, "h1")
	b.expect(key(1, "r", 2), "abc", "h2: c", "").End()
	b.expect(key(2, "s", 1), "abc", "h1: c", "").End()
	b.expect(key(1, "s", 1), "abc", "all: abc", "").End()
}

// TestOnce: a handle for a single use is used by one request at a time.
func TestOnce(t *testing.T) {
	b := newBench(t, true, 1<<20)
	k := key(1, "s", 1)
	b.retains(k, "ab", "", retain.Unknown, "h1")
	first := b.expect(k, "abc", "h1: c", "")
	b.expect(k, "abd", "", retain.InFlight).End()
	b.expect(key(1, "s", 2), "abd", "all: abd", "").End() // not for another conversation
	first.Retain(retain.Verdict{Handle: "h2"})
	first.End()
	b.expect(k, "abce", "h2: e", "").End()
}

// TestBounds: the tenant with the most memory loses states first, and all states expire.
func TestBounds(t *testing.T) {
	b := newBench(t, false, 40_000)
	body := string(bytes.Repeat([]byte("a"), 900)) // 16 bytes of hashes for each
	small, large := key(1, "s", 1), byte(2)
	b.retains(small, body, "", retain.Unknown, "h")
	for i := range 8 {
		k := key(large, string(rune('a'+i)), 1)
		turn := b.Begin(k, &retain.Request{Body: []byte(body), History: hashes(body)})
		turn.Retain(retain.Verdict{Handle: "x"})
		turn.End()
	}
	b.expect(small, body+"b", "h: b", "").End()
	b.expect(key(large, "h", 1), body+"b", "x: b", "").End()
	b.expect(key(large, "a", 1), body+"b", "all: "+body+"b", "").End()

	b.now = b.now.Add(59 * time.Minute)
	b.expect(small, body+"b", "h: b", "").End() // counts as a use
	b.now = b.now.Add(59 * time.Minute)
	b.expect(small, body+"b", "h: b", "").End()
	b.expect(key(large, "h", 1), body+"b", "", retain.Unknown).End()
	b.now = b.now.Add(time.Hour)
	b.expect(small, body+"b", "", retain.Unknown).End()
}
