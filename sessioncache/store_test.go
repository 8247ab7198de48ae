// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Ten thousand live sessions of a hundred turns fit the stated memory.
func TestMemoryOfManySessions(t *testing.T) {
	if testing.Short() {
		t.Skip("needs 600 MiB")
	}
	const sessions, turns = 10_000, 100
	m := open(t, Options{MaxBytes: 2 << 30})
	body := user1
	var last *wire.View
	for i := range turns {
		body += fmt.Sprintf(`,{"role":"assistant","content":[{"type":"text","text":"Let me look."},{"type":"tool_use",`+
			`"id":"t%d","name":"Read","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d",`+
			`"content":"text"}]}`, i, i)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range sessions {
		last = view(t, body, nil)
		s := m.Acquire(t.Context(), Key{ID: fmt.Sprint(i)})
		l := commit(s, last)
		for j := range l.States { // a hundred results of forty lines each
			if last.MessageBlocks()[j].Kind == wire.KindToolResult {
				l.States[j].Trait = Trait(make([]byte, 1+8*(3+7)))
			}
		}
		m.Release(s)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	allocated := int64(after.HeapAlloc - before.HeapAlloc)
	t.Logf("%d sessions of %d turns hold %d MiB, counted as %d MiB", sessions, turns, allocated>>20, m.Stats().Bytes>>20)
	if st := m.Stats(); st.Sessions != sessions {
		t.Errorf("%d sessions are left", st.Sessions)
	}
	if allocated > 640<<20 {
		t.Errorf("%d MiB are over the bound of 640 MiB", allocated>>20)
	}
	if counted := m.Stats().Bytes; counted < allocated*8/10 || counted > allocated*12/10 {
		t.Errorf("counted %d MiB, held %d MiB", counted>>20, allocated>>20)
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	m := open(b, Options{})
	k := Key{ID: "s"}
	s := m.Acquire(b.Context(), k)
	commit(s, view(b, user1+answer1+user2, nil))
	m.Release(s)
	b.ReportAllocs()
	for b.Loop() {
		m.Release(m.Acquire(b.Context(), k))
	}
}

// made is a session in which a request was committed, released.
func made(t testing.TB, m *Store, tenant byte, id string) *Session {
	t.Helper()
	s := m.Acquire(t.Context(), Key{Tenant: Tenant{tenant}, ID: id})
	commit(s, view(t, user1, nil))
	m.Release(s)
	return s
}

// A session without an accepted request is not stored, nor are index entries for it. Concurrent
// requests still share one session.
func TestOnlyTheAcceptedAreHeld(t *testing.T) {
	m := open(t, Options{})
	k := Key{ID: "s"}
	a, b := m.Acquire(t.Context(), k), m.Acquire(t.Context(), k)
	if a != b {
		t.Fatal("two requests at a time are of two sessions")
	}
	m.Release(a)
	if len(m.sessions) != 1 || m.Find(a.ID()) != a {
		t.Error("gone while in use")
	}
	m.Release(b)
	if len(m.sessions) != 0 || !a.Gone() {
		t.Error("a session is held in which nothing was committed")
	}
	c, d := m.Acquire(t.Context(), k), m.Acquire(t.Context(), k)
	if c == a {
		t.Error("what is gone is back")
	}
	commit(c, view(t, user1, nil)) // and d is refused
	m.Release(d)
	m.Release(c)
	if st := m.Stats(); st.Sessions != 1 || st.Created != 1 || m.Acquire(t.Context(), k) != c {
		t.Errorf("an accepted session is not held: %+v", st)
	}
	if x := m.Acquire(t.Context(), Key{ID: "never"}); m.Delete(x.ID()) != x || m.Find(x.ID()) != nil {
		t.Error("a session in use cannot be deleted before it is accepted")
	} else {
		commit(x, view(t, user1, nil))
		m.Release(x)
		if m.Stats().Sessions != 1 {
			t.Error("a deleted session is back with the end of its request")
		}
	}
}

// One tenant pushes out its own sessions, however many it makes.
func TestTenantsKeepTheirShare(t *testing.T) {
	m := open(t, Options{MaxBytes: MinMaxBytes})
	var quiet []*Session
	for i := range 20 {
		quiet = append(quiet, made(t, m, byte(i), fmt.Sprint("quiet ", i)))
	}
	for i := 0; m.Stats().Evicted < 2000; i++ {
		made(t, m, 200, fmt.Sprint("loud ", i))
	}
	for i, s := range quiet {
		if s.Gone() {
			t.Errorf("session %d was pushed out by another tenant", i)
		}
	}
	// Alone, a tenant has all of it; and a newcomer has room at once.
	if st := m.Stats(); st.Bytes < st.MaxBytes*9/10 || st.Bytes > st.MaxBytes {
		t.Errorf("%d of %d bytes are held", st.Bytes, st.MaxBytes)
	}
	if made(t, m, 201, "new").Gone() {
		t.Error("a newcomer was pushed out")
	}
	sum := int64(0)
	for _, s := range m.every(func(*Session) bool { return true }) {
		counted := s.cost
		if s.entry != nil {
			counted = s.entry.Size()
		}
		s.Lock()
		if n := s.size(); n != counted {
			t.Errorf("%d bytes are accounted for, %d held", counted, n)
		}
		s.Unlock()
		sum += counted
	}
	if sum != m.Stats().Bytes {
		t.Errorf("%d bytes are accounted for, %d held", m.Stats().Bytes, sum)
	}
}

// With all sessions of the largest tenant in use, others make room.
func TestRoomWhileInUse(t *testing.T) {
	m := open(t, Options{MaxBytes: MinMaxBytes})
	made(t, m, 1, "idle")
	idle := m.Stats().Bytes
	for i := 0; m.Stats().Bytes+idle < MinMaxBytes; i++ {
		s := m.Acquire(t.Context(), Key{Tenant: Tenant{2}, ID: fmt.Sprint(i)})
		commit(s, view(t, user1, nil))
		m.Release(m.Acquire(t.Context(), Key{Tenant: Tenant{2}, ID: fmt.Sprint(i)}))
	}
	for i := range 3 {
		made(t, m, 3, fmt.Sprint(i))
	}
	if st := m.Stats(); st.Evicted == 0 || st.Bytes > st.MaxBytes {
		t.Errorf("nobody made room: %+v", st)
	}
}

// An expired session makes room for the next one under its key, and takes nothing of it along.
func TestExpiredBeforeTheSweep(t *testing.T) {
	m := open(t, Options{IdleTTL: 10 * time.Millisecond})
	old := made(t, m, 1, "s")
	time.Sleep(30 * time.Millisecond)
	next := made(t, m, 1, "s")
	if old == next || !old.Gone() || next.Gone() {
		t.Fatal("an idle session is still there")
	}
	if st := m.Stats(); st.Sessions != 1 || st.Bytes != next.entry.Size() || len(m.Page(Newest, 10)) != 1 {
		t.Errorf("two sessions under one key: %+v", st)
	}
	if err := m.SetLimits(Options{IdleTTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	m.sweep()
	if m.Acquire(t.Context(), Key{Tenant: Tenant{1}, ID: "s"}) != next {
		t.Error("the end of the one took the other along")
	}
}

// Pages contain every session once, the newest first, also if sessions are used meanwhile.
func TestPages(t *testing.T) {
	m := open(t, Options{})
	const n = 25
	for i := range n {
		made(t, m, byte(i%3), fmt.Sprint(i))
	}
	seen, before := map[*Session]bool{}, uint64(Newest)
	for {
		page := m.Page(before, 10)
		for _, s := range page {
			if seen[s] || s.Number() >= before {
				t.Fatal("out of order, or twice")
			}
			seen[s], before = true, s.Number()
		}
		if len(page) < 10 {
			break
		}
		made(t, m, 1, "1")
		made(t, m, 2, fmt.Sprint("new ", before))
	}
	if len(seen) != n {
		t.Errorf("%d of %d sessions were listed", len(seen), n)
	}
}

// A client may send megabytes for the name of a model, and a box take them: they count.
func TestLongModelCounts(t *testing.T) {
	s := &Session{conversations: []*Conversation{{Model: strings.Repeat("x", 1<<20)}}}
	if n := s.size(); n < 1<<20 {
		t.Errorf("it counts for %d bytes", n)
	}
}

func TestIndex(t *testing.T) {
	x := ownerIndex[string, int, string]{}
	of := map[string][]int{}
	move := func(owner, it string, now ...int) {
		t.Helper()
		if of[it] = x.Move(owner, it, of[it], now); !slices.Equal(of[it], now) {
			t.Fatalf("%s is under %d, not %d", it, of[it], now)
		}
	}
	found := func(owner string, hash int, want string) {
		t.Helper()
		if got := x.Find(owner, hash); got != want {
			t.Errorf("under %s's %d is %q, not %q", owner, hash, got, want)
		}
	}
	move("anna", "a", 1, 2)
	move("ben", "b", 1)
	found("anna", 1, "a")
	found("ben", 1, "b")
	found("ben", 2, "")
	move("anna", "later", 2)
	found("anna", 2, "later")
	move("anna", "a", 3) // the other owner of the hash keeps it
	found("anna", 1, "")
	found("anna", 2, "later")
	found("anna", 3, "a")
	move("anna", "later")
	found("anna", 2, "")
	move("anna", "later", 3)
	move("anna", "a", 3) // the same as before, and the last
	found("anna", 3, "a")
	move("anna", "a")
	move("anna", "later")
	move("ben", "b")
	if len(x) != 0 {
		t.Errorf("left are %v", x)
	}
}
