// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Shared tests a backend that several processes use at once. open is as for [Backend]. A second
// call in the same test opens the same backend beside the first.
func Shared(t *testing.T, open func(t *testing.T) sessioncache.Shared) {
	t.Helper()
	Backend(t, func(t *testing.T) sessioncache.Backend { return open(t) })
	for name, test := range map[string]func(t *testing.T, one, other sessioncache.Shared){
		"Swaps": swaps, "DeletedElsewhere": deletedElsewhere, "FirstWins": firstWins, "Told": told, "Seeks": seeks,
		"Forgets": forgotten,
	} {
		t.Run(name, func(t *testing.T) {
			one, other := open(t), open(t)
			test(t, one, other)
			shut(t, one)
			shut(t, other)
		})
	}
}

func swap(
	t *testing.T, b sessioncache.Shared, r sessioncache.Record, have sessioncache.Version,
) (other string, now sessioncache.Version, won bool) {
	t.Helper()
	w := &sessioncache.Swap{Record: r, Have: have, Next: sessioncache.NewVersion()}
	b.Swap(t.Context(), []*sessioncache.Swap{w})
	clear(r.Snapshot) // the memory of the snapshot is reused
	if w.Err != nil {
		t.Fatal(w.Err)
	}
	return string(w.Other), w.Now, w.Now == w.Next
}

func fetches(t *testing.T, b sessioncache.Shared, n byte, have sessioncache.Version, want string) sessioncache.Version {
	t.Helper()
	got, now, err := b.Fetch(t.Context(), digest(n), have)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("session %d is %q, not %q", n, got, want)
	}
	return now
}

// Each side reads the newest version of the other, once.
func swaps(t *testing.T, one, other sessioncache.Shared) {
	if v := fetches(t, other, 1, 0, ""); v != 0 {
		t.Errorf("a session that is not there has version %d", v)
	}
	_, first, won := swap(t, one, record(1, "one", 1), 0)
	if !won || fetches(t, other, 1, 0, "one") != first || fetches(t, other, 1, first, "") != first {
		t.Error("what one has written the other does not have")
	}
	got, now, won := swap(t, other, record(1, "in ignorance"), 0)
	if won || got != "one" || now != first {
		t.Errorf("who does not know what is there has %q of version %d, not %d", got, now, first)
	}
	_, second, won := swap(t, other, record(1, "two", 2), first)
	if !won || fetches(t, one, 1, first, "two") != second {
		t.Error("who knows what is there cannot write")
	}
	if got, now, won = swap(t, one, record(1, "late"), first); won || got != "two" || now != second {
		t.Errorf("what came too late: %q of version %d, not %d", got, now, second)
	}
	if _, ok, err := one.Answered(t.Context(), digest(101)); ok || err != nil {
		t.Errorf("an answer that the session has no more: %t, %v", ok, err)
	}
	if d, ok, err := one.Answered(t.Context(), digest(102)); !ok || err != nil || d != digest(1) {
		t.Errorf("an answer: %x, %t, %v", d, ok, err)
	}
	if _, _, won = swap(t, one, record(2, "from before"), first); !won { // the server has lost the session
		t.Error("a session that is lost cannot be written again")
	}
	large := strings.Repeat("three ", 10_000) // together with small ones
	all := []*sessioncache.Swap{
		{Record: record(1, large), Have: second, Next: 31},
		{Record: record(2, "in ignorance"), Next: 32},
		{Record: record(3, "new"), Next: 33},
	}
	one.Swap(t.Context(), all)
	for i, won := range []bool{true, false, true} {
		if w := all[i]; w.Err != nil || (w.Now == w.Next) != won {
			t.Errorf("of several at once, session %d has version %d, not %d: %v", i+1, w.Now, w.Next, w.Err)
		}
	}
	if other := string(all[1].Other); other != "from before" {
		t.Errorf("of several at once, session 2 is %q", other)
	}
	third := fetches(t, other, 1, 0, large)
	fetches(t, other, 3, 0, "new")
	if got, now, won := swap(t, other, record(1, "late"), second); won || got != large || now != third {
		t.Errorf("what came too late for a large session: %d bytes of version %d, not %d", len(got), now, third)
	}
}

// A session deleted by one side is gone for the other, and missing for callers without a version.
func deletedElsewhere(t *testing.T, one, other sessioncache.Shared) {
	_, first, _ := swap(t, one, record(1, "one"), 0)
	if err := other.Delete(t.Context(), digest(1)); err != nil {
		t.Fatal(err)
	}
	gone := fetches(t, one, 1, first, "")
	if gone == 0 || gone == first {
		t.Errorf("a session that was deleted has version %d", gone)
	}
	if got, now, won := swap(t, one, record(1, "again"), first); won || got != "" || now != gone {
		t.Errorf("who had it writes it again: %q of version %d", got, now)
	}
	_, anew, won := swap(t, other, record(1, "anew"), 0)
	if !won {
		t.Error("it cannot begin anew")
	}
	empty := record(1, "")
	if _, _, won = swap(t, one, empty, gone); won {
		t.Error("it was deleted by who did not know it")
	}
	if _, _, won = swap(t, other, empty, anew); !won || fetches(t, one, 1, 0, "") == 0 {
		t.Error("it was not deleted by who knew it")
	}
	if _, ok, _ := one.Named(t.Context(), begins(1)); ok {
		t.Error("a session that was deleted is found by its public id")
	}
}

// Of many concurrent writes one is first.
func firstWins(t *testing.T, one, other sessioncache.Shared) {
	for round := range 20 {
		have := fetches(t, one, 1, 1, map[bool]string{true: "", false: "x"}[round == 0])
		var mu sync.Mutex
		var wait sync.WaitGroup
		won := 0
		for i := range 8 {
			wait.Go(func() {
				w := &sessioncache.Swap{Record: record(1, "x"), Have: have, Next: sessioncache.NewVersion()}
				[]sessioncache.Shared{one, other}[i%2].Swap(context.Background(), []*sessioncache.Swap{w})
				mu.Lock()
				defer mu.Unlock()
				if w.Err != nil {
					t.Error(w.Err)
				}
				if w.Now == w.Next {
					won++
				}
			})
		}
		wait.Wait()
		if won != 1 {
			t.Fatalf("%d have won", won)
		}
	}
}

// A watcher eventually learns of foreign changes, while its own writes change nothing for it.
func told(t *testing.T, one, other sessioncache.Shared) {
	a, ok := one.(sessioncache.Watcher)
	if !ok {
		t.Skip("it is not told of changes")
	}
	if a.Unchanged(digest(1), 0) || a.Unchanged(digest(1), 1) {
		t.Error("a session is unchanged that is not there")
	}
	_, first, _ := swap(t, one, record(1, "one"), 0)
	if !a.Unchanged(digest(1), first) {
		t.Skip("where it keeps sessions nobody tells it of changes")
	}
	_, second, _ := swap(t, one, record(1, "two"), first)
	if !a.Unchanged(digest(1), second) || a.Unchanged(digest(1), first) {
		t.Error("what was written oneself is not known")
	}
	fetches(t, other, 1, 0, "two")
	_, third, _ := swap(t, other, record(1, "three"), second)
	changes := func(what string, v sessioncache.Version) {
		t.Helper()
		for a.Unchanged(digest(1), v) {
			if t.Context().Err() != nil {
				t.Fatalf("nobody says that it was %s", what)
			}
			time.Sleep(time.Millisecond)
		}
	}
	changes("written elsewhere", second)
	// After a lost connection a node drops all invalidations and asks again.
	for have := second; !a.Unchanged(digest(1), third); {
		if t.Context().Err() != nil {
			t.Fatal("what was read is not known")
		}
		got, now, err := one.Fetch(t.Context(), digest(1), have)
		if err != nil || now != third || have == second && string(got) != "three" {
			t.Fatalf("got %q of version %d, %v, want that of version %d", got, now, err, third)
		}
		have = now
	}
	if err := other.Delete(t.Context(), digest(1)); err != nil {
		t.Fatal(err)
	}
	changes("deleted elsewhere", third)
}

// A forgotten session leaves no trace, unless another process has written it.
func forgotten(t *testing.T, one, other sessioncache.Shared) {
	_, first, _ := swap(t, one, record(1, "one", 1), 0)
	forget := func(have sessioncache.Version) *sessioncache.Swap {
		w := &sessioncache.Swap{
			Record: sessioncache.Record{Digest: digest(1)}, Have: have, Next: sessioncache.NewVersion(),
			Forget: true,
		}
		one.Swap(t.Context(), []*sessioncache.Swap{w})
		return w
	}
	if w := forget(first + 2); w.Err != nil || w.Now != first || string(w.Other) != "one" {
		t.Errorf("of another's version: got %q in version %d (%v), want the session in version %d", w.Other, w.Now,
			w.Err, first)
	}
	if w := forget(first); w.Err != nil || w.Now != w.Next {
		t.Errorf("got version %d (%v), want it gone", w.Now, w.Err)
	}
	if snapshot, now, err := other.Fetch(t.Context(), digest(1), 0); err != nil || now != 0 || len(snapshot) > 0 {
		t.Errorf("got %q in version %d (%v), want nothing", snapshot, now, err)
	}
	if w := forget(0); w.Err != nil || w.Now != w.Next {
		t.Errorf("once more: got version %d (%v), want it gone", w.Now, w.Err)
	}
}

func seeks(t *testing.T, one, other sessioncache.Shared) {
	_, first, _ := swap(t, one, record(1, "one", 1), 0)
	_, second, _ := swap(t, one, record(2, "two", 2), 0)
	for name, c := range map[string]struct {
		answer, in byte
		have       sessioncache.Version
		of         byte
		want       string
		now        sessioncache.Version
	}{
		"an answer of the session":            {1, 1, 0, 1, "one", first},
		"nothing new":                         {1, 1, first, 1, "", first},
		"an older one is known":               {1, 1, second, 1, "one", first},
		"an answer of another session":        {2, 1, first, 2, "", 0},
		"no answer":                           {3, 1, 0, 1, "one", first},
		"no answer, and no session":           {3, 3, 0, 3, "", 0},
		"an answer elsewhere, and no session": {1, 3, 0, 1, "", 0},
	} {
		of, snapshot, now, err := other.Seek(t.Context(), digest(100+c.answer), digest(c.in), c.have)
		if err != nil || of != digest(c.of) || string(snapshot) != c.want || now != c.now {
			t.Errorf("%s: %q of %x in version %d, not %q of session %d in version %d: %v", name, snapshot, of[:1], now, c.want,
				c.of, c.now, err)
		}
	}
}
