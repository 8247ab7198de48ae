// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"slices"
	"time"
)

// Report is an operator's view of a queue.
type Report struct {
	// Slots is the number of slots, Running and Waiting count requests.
	Slots, Running, Waiting int
	// Expected is the wait of a request that came now.
	Expected time.Duration
	// Users lists the users with requests in the queue.
	Users []UserReport
}

// UserReport is one user's part of a [Report].
type UserReport struct {
	// Name is the user's name in tickets.
	Name string
	// Running and Waiting count the user's requests.
	Running, Waiting int
}

// Report returns the queue's report, with users by name.
func (q *Queue) Report() Report {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := Report{Slots: q.slots.limit, Running: q.slots.busy, Waiting: q.waiting, Expected: q.expected()}
	for _, p := range q.users {
		r.Users = append(r.Users, UserReport{p.name, p.running, len(p.turns)})
	}
	slices.SortFunc(r.Users, func(a, b UserReport) int { return cmp.Compare(a.Name, b.Name) })
	return r
}
