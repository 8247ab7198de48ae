// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// enter returns a request that must get a place.
func enter(t *testing.T, q *Queue, ticket Ticket) *Place {
	t.Helper()
	turn, err := q.Enter(ticket)
	if err != nil {
		t.Fatalf("%+v: %v", ticket, err)
	}
	return turn
}

func running(t *Place) bool {
	select {
	case <-t.ready:
		return true
	default:
		return false
	}
}

func TestSlotsAreBounded(t *testing.T) {
	q := New(Limits{Slots: 2, Waiting: 1})
	a, b := enter(t, q, Ticket{User: "a"}), enter(t, q, Ticket{User: "b"})
	c := enter(t, q, Ticket{User: "c"})
	if !running(a) || !running(b) || running(c) {
		t.Fatalf("running: %t %t %t, want the first two", running(a), running(b), running(c))
	}
	if a.Slot == b.Slot {
		t.Fatalf("two requests run in slot %d", a.Slot)
	}
	d, err := q.Enter(Ticket{User: "d"})
	if !errors.Is(err, ErrFull) || d.Ahead != 1 || d.Expected <= 0 {
		t.Fatalf("a fourth request: %v, %d ahead, %s expected; want it refused behind 1", err, d.Ahead, d.Expected)
	}
	if now := q.Expected(); a.Expected != 0 || c.Expected != firstGuess/2 || now != firstGuess {
		t.Errorf("expected waits: %s, %s, and %s for whoever comes next", a.Expected, c.Expected, now)
	}
	a.Leave()
	a.Leave() // a second call does nothing
	if !running(c) || c.Slot != a.Slot {
		t.Fatalf("the place of %d was not given to the one who waits: slot %d", a.Slot, c.Slot)
	}
	if r, w := q.Length(); r != 2 || w != 0 {
		t.Fatalf("%d run and %d wait, want 2 and 0", r, w)
	}
}

// TestServerDown: while connections hang, the waiting requests do not wait for one connection after the other.
// A server that is found again gives its slots as before.
func TestServerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Slots: 2, Waiting: 100})
		const dial = 3 * time.Second
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 20 {
			turn := enter(t, q, Ticket{User: fmt.Sprint(i % 3)})
			wg.Go(func() {
				err := turn.Wait(t.Context())
				if err == nil {
					defer turn.Leave()
					time.Sleep(dial)
					q.Reached(false)
				} else if !errors.Is(err, ErrUnreached) {
					t.Errorf("got %v, want %v", err, ErrUnreached)
				}
				if took := time.Since(start); took > 2*dial {
					t.Errorf("request %d: got an end after %s, want it within %s", i, took, 2*dial)
				}
			})
		}
		wg.Wait()
		if running, waiting := q.Length(); running != 0 || waiting != 0 || len(q.users) != 0 {
			t.Errorf("got %d running, %d waiting, %d users, want none", running, waiting, len(q.users))
		}
		q.Reached(true)
		a, b, c := enter(t, q, Ticket{User: "a"}), enter(t, q, Ticket{User: "b"}), enter(t, q, Ticket{User: "c"})
		q.Reached(false) // one failure is no sign, as another server of the site may be there
		if !running(a) || !running(b) || running(c) {
			t.Errorf("running: %t %t %t, want the first two", running(a), running(b), running(c))
		}
		a.Leave()
		if !running(c) {
			t.Error("got no slot for the third request, want the first one's")
		}
	})
}

func TestOneUserDoesNotTakeAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Slots: 1, Waiting: 100})
		var order []string
		first := enter(t, q, Ticket{User: "many"})
		var rest []*Place
		for range 5 {
			rest = append(rest, enter(t, q, Ticket{User: "many"}))
		}
		time.Sleep(time.Second)
		rest = append(rest, enter(t, q, Ticket{User: "one"}), enter(t, q, Ticket{User: "two"}))
		time.Sleep(time.Second)
		first.Leave()
		for len(rest) > 0 {
			i := slices.IndexFunc(rest, running)
			order = append(order, rest[i].ticket.User)
			time.Sleep(2 * time.Second)
			rest[i].Leave()
			rest = slices.Delete(rest, i, i+1)
		}
		if want := []string{"one", "two"}; !slices.Equal(order[:2], want) {
			t.Errorf("served in the order %v, want %v before the other five", order, want)
		}
	})
}

func TestConversationsGoBeforeSideRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Slots: 1, Waiting: 10})
		busy := enter(t, q, Ticket{User: "a"})
		side := enter(t, q, Ticket{User: "b", Side: true})
		time.Sleep(time.Second)
		main := enter(t, q, Ticket{User: "c"})
		busy.Leave()
		if running(side) || !running(main) {
			t.Fatal("a side request went before a conversation")
		}
		// A side request does not wait for ever.
		time.Sleep(sideAge)
		another := enter(t, q, Ticket{User: "d"})
		main.Leave()
		if !running(side) || running(another) {
			t.Fatal("a side request starves")
		}
	})
}

func TestConversationsFindTheirSlot(t *testing.T) {
	q := New(Limits{Slots: 3, Waiting: 10})
	run := func(conversation string, side bool) int {
		turn := enter(t, q, Ticket{User: conversation, Conversation: conversation, Side: side})
		defer turn.Leave()
		return turn.Slot
	}
	a, b := run("a", false), run("b", false)
	title := run("title", true)
	if a == b || a == title || b == title {
		t.Fatalf("slots %d, %d and %d: an empty one was left aside", a, b, title)
	}
	for range 3 {
		if run("b", false) != b || run("a", false) != a {
			t.Fatal("a conversation left the slot with its prefix")
		}
		if got := run("another title", true); got != title {
			t.Fatalf("a side request took slot %d of a conversation, not %d", got, title)
		}
	}
	if got := run("c", false); got != title {
		t.Fatalf("a new conversation took slot %d, not the side requests' %d", got, title)
	}
	if got := run("title", true); got != title {
		t.Fatalf("slot %d was taken, want %d, whose prefix was never found again", got, title)
	}
}

// TestWorthOfSlots: with more conversations than slots, some conversations keep their slots; an
// ended conversation loses its slot in time.
func TestWorthOfSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Slots: 2, Waiting: 10})
		at := map[string]int{} // slot of the last run
		found := 0
		run := func(conversation string, size int, side bool) {
			turn := enter(t, q, Ticket{User: conversation, Conversation: conversation, Size: size, Side: side})
			turn.Leave()
			if slot, ok := at[conversation]; ok && slot == turn.Slot {
				found++
			}
			maps.DeleteFunc(at, func(_ string, slot int) bool { return slot == turn.Slot })
			at[conversation] = turn.Slot
			time.Sleep(time.Second)
		}
		const turns = 20
		for i := range turns {
			run("a", 10_000+100*i, false)
			run("title of a", 1000, true)
			run("b", 10_050+100*i, false)
			run("title of b", 1000, true)
		}
		if found < turns-2 {
			t.Errorf("got %d prefixes found in %d turns of two conversations, want one in each but the first two", found, turns)
		}
		time.Sleep(time.Hour)
		found = 0
		for i := range turns {
			run("c", 5000+100*i, false)
			run("d", 5000+100*i, false)
		}
		if want := 2*turns - 4; found < want {
			t.Errorf("got %d prefixes found behind stale ones, want %d at least", found, want)
		}
	})
}

func TestLeavingTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Limits{Slots: 1, Waiting: 2, Patience: time.Minute})
		busy := enter(t, q, Ticket{User: "a"})
		ctx, cancel := context.WithCancelCause(t.Context())
		gone, late := enter(t, q, Ticket{User: "b"}), enter(t, q, Ticket{User: "c"})
		reason := errors.New("client left")
		go func() {
			time.Sleep(time.Second)
			cancel(reason)
		}()
		if err := gone.Wait(ctx); !errors.Is(err, reason) {
			t.Fatalf("a client that left: %v", err)
		}
		if _, waiting := q.Length(); waiting != 1 {
			t.Fatalf("%d wait, want 1: the place was not given up", waiting)
		}
		if err := late.Wait(t.Context()); !errors.Is(err, ErrPatience) {
			t.Fatalf("after a minute: %v", err)
		}
		if waited := late.Waited(); waited < time.Minute {
			t.Errorf("gave up after %s", waited)
		}
		busy.Leave()
		if err := enter(t, q, Ticket{User: "d"}).Wait(ctx); err != nil {
			t.Errorf("a request that has its slot is turned away: %v", err)
		}
	})
}

func TestChangedLimits(t *testing.T) {
	q := New(Limits{Slots: 2, Waiting: 10})
	turns := make([]*Place, 0, 4)
	for i := range 4 {
		turns = append(turns, enter(t, q, Ticket{User: fmt.Sprint(i)}))
	}
	q.SetLimits(Limits{Slots: 1, Waiting: 10})
	turns[0].Leave()
	if running(turns[2]) {
		t.Fatal("one slot, and two requests run")
	}
	turns[1].Leave()
	if !running(turns[2]) || running(turns[3]) || turns[2].Slot != 0 {
		t.Fatalf("slot %d, want 0 and one request running", turns[2].Slot)
	}
	q.SetLimits(Limits{Slots: 3, Waiting: 10})
	if !running(turns[3]) {
		t.Fatal("a slot more, and the last request waits")
	}
}

// TestNobodyStarves lets eight users work for ten minutes on two slots. A user with one request at
// a time never waits for over twice the mean of all waits, and more requests give a user no more
// turns.
func TestNobodyStarves(t *testing.T) {
	for _, c := range []struct {
		name   string
		agents int           // of the first user
		long   int           // users with five times as long requests
		tools  time.Duration // maximum duration of the agents' tools
	}{
		{name: "alike", agents: 1, tools: 3 * time.Second},
		{name: "asking without a pause", agents: 1},
		{name: "some with long requests", agents: 1, long: 2},
		{name: "one with six agents", agents: 6, tools: 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(Limits{Slots: 2, Waiting: 100})
				waits := make([][]time.Duration, 8)
				var (
					mu    sync.Mutex
					users sync.WaitGroup
				)
				agent := func(p int, random *rand.Rand) {
					for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); {
						turn, err := q.Enter(Ticket{User: fmt.Sprint(p), Conversation: fmt.Sprint(p)})
						if err == nil {
							err = turn.Wait(t.Context())
						}
						if err != nil {
							t.Errorf("person %d: %v", p, err)
							return
						}
						mu.Lock()
						waits[p] = append(waits[p], turn.Waited())
						mu.Unlock()
						took := time.Second + time.Duration(random.Int64N(4e9)) // no two end at once
						if p >= len(waits)-c.long {
							took *= 5
						}
						time.Sleep(took)
						turn.Leave()
						time.Sleep(time.Duration(random.Int64N(int64(c.tools) + 1)))
					}
				}
				for p := range waits {
					agents := 1
					if p == 0 {
						agents = c.agents
					}
					for a := range agents {
						users.Go(func() { agent(p, rand.New(rand.NewPCG(uint64(a), uint64(p)))) })
						time.Sleep(time.Millisecond) // fixes the order of arrival
					}
				}
				users.Wait()
				var sum, maxRun time.Duration
				n, requests := 0, make([]int, len(waits))
				for p, list := range waits {
					n, requests[p] = n+len(list), len(list)
					for _, w := range list {
						sum += w
					}
					if p > 0 || c.agents == 1 {
						maxRun = max(maxRun, slices.Max(list))
					}
				}
				mean := sum / time.Duration(n)
				t.Logf("%d requests, waits: mean %s, longest %s (%.2f); by person %v", n, mean, maxRun,
					maxRun.Seconds()/mean.Seconds(), requests)
				if maxRun > 2*mean {
					t.Errorf("the longest wait, %s, is over twice the mean, %s", maxRun, mean)
				}
				if alike := requests[:len(requests)-c.long]; slices.Min(alike)*3 < slices.Max(alike)*2 {
					t.Errorf("people had %v requests", requests)
				}
			})
		})
	}
}

// TestRoomIsShared: no user fills the queue alone. Users with fewer requests displace them, down to
// equal shares and no further.
func TestRoomIsShared(t *testing.T) {
	q := New(Limits{Slots: 1, Waiting: 6})
	first := enter(t, q, Ticket{User: "many"})
	var many, few []*Place
	for range 6 {
		many = append(many, enter(t, q, Ticket{User: "many"}))
	}
	if _, err := q.Enter(Ticket{User: "many"}); !errors.Is(err, ErrFull) {
		t.Fatalf("one's own request made room: %v", err)
	}
	for i := range 3 {
		few = append(few, enter(t, q, Ticket{User: "few"}))
		if err := many[5-i].Wait(t.Context()); !errors.Is(err, ErrFull) {
			t.Errorf("the last of many requests waits: %v", err)
		}
		many[5-i].Leave() // changes nothing
		if _, waiting := q.Length(); waiting != 6 {
			t.Fatalf("%d wait, want 6", waiting)
		}
	}
	if _, err := q.Enter(Ticket{User: "few"}); !errors.Is(err, ErrFull) {
		t.Errorf("more than a share was given: %v", err)
	}
	title := enter(t, q, Ticket{User: "third", Side: true})
	third := enter(t, q, Ticket{User: "third"})
	fourth := enter(t, q, Ticket{User: "fourth"}) // two each of three: a side request goes first
	if title.err == nil && third.err == nil && many[2].err == nil && few[2].err == nil {
		t.Error("nobody made room for the fourth")
	}
	if third.err != nil {
		t.Error("a conversation made room before its person's side request")
	}
	first.Leave()
	for range 6 {
		all := append(append(slices.Clone(many), few...), title, third, fourth)
		i := slices.IndexFunc(all, func(turn *Place) bool { return running(turn) && turn.user != nil && turn.err == nil })
		if i < 0 {
			t.Fatal("nobody runs")
		}
		all[i].Leave()
	}
	if r, w := q.Length(); r != 0 || w != 0 || len(q.users) != 0 {
		t.Errorf("%d run, %d wait, %d people", r, w, len(q.users))
	}

	q = New(Limits{Slots: 1, Waiting: 3}) // two users cannot share it equally
	for range 4 {
		enter(t, q, Ticket{User: "many"})
	}
	enter(t, q, Ticket{User: "few"})
	if _, err := q.Enter(Ticket{User: "few"}); !errors.Is(err, ErrFull) {
		t.Errorf("a place more changed hands: %v", err)
	}
}
