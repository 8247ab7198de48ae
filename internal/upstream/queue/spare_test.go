// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// TestSpare: background work runs while the server is idle, one at a time, in the slot of its
// conversation. A request ends the work and gets a slot at once.
func TestSpare(t *testing.T) {
	q := New(Limits{Slots: 2, Waiting: 4})
	first := served(t, q, Ticket{User: "a", Conversation: "one"})
	second := served(t, q, Ticket{User: "a", Conversation: "two"})

	got := make(chan *Spare, 1)
	go func() {
		s, err := q.Spare(t.Context(), "two", AnySlot)
		if err != nil {
			t.Error(err)
		}
		got <- s
	}()
	other, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Spare(other, "", AnySlot); !errors.Is(err, context.Canceled) {
		t.Errorf("whoever gives up waiting gets %v", err)
	}
	first.Leave()
	select {
	case <-got:
		t.Fatal("it runs beside a request")
	default:
	}
	second.Leave()
	s := <-got
	if s.Slot != second.Slot {
		t.Errorf("it runs in slot %d, its conversation is in %d", s.Slot, second.Slot)
	}
	if err := s.Context.Err(); err != nil {
		t.Errorf("it ended at once: %v", err)
	}

	third := served(t, q, Ticket{User: "b", Conversation: "three"})
	if err := context.Cause(s.Context); !errors.Is(err, ErrWanted) {
		t.Errorf("it goes on beside a request: %v", err)
	}
	s.Leave()
	third.Leave()
	s.Leave()

	again, err := q.Spare(t.Context(), "", 1)
	if err != nil || again.Slot != 1 {
		t.Fatalf("slot %d was asked for: %+v, %v", 1, again, err)
	}
	again.Leave()
	if bare := q.Bare(); len(bare) != 0 {
		t.Errorf("slots %v count as bare and hold conversations", bare)
	}
	q.Forget()
	if bare := q.Bare(); !slices.Equal(bare, []int{0, 1}) {
		t.Errorf("slots %v are bare after a restart, want all", bare)
	}
}

// served runs a request.
func served(t *testing.T, q *Queue, k Ticket) *Place {
	t.Helper()
	turn := enter(t, q, k)
	if err := turn.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return turn
}
