// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"slices"
	"time"
)

// Report is what an operator may see of a queue.
type Report struct {
	// Slots is how many requests run at a time, Running how many do, Waiting how many
	// wait.
	Slots, Running, Waiting int
	// Expected is how long a request that came now would wait.
	Expected time.Duration
	// People are those who have requests there.
	People []PersonReport
}

// PersonReport is one of them.
type PersonReport struct {
	// Name is whom tickets name.
	Name string
	// Running and Waiting count their requests.
	Running, Waiting int
}

// Report returns it, people by name.
func (q *Queue) Report() Report {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := Report{Slots: q.slots.limit, Running: q.slots.busy, Waiting: q.waiting, Expected: q.expected()}
	for _, p := range q.people {
		r.People = append(r.People, PersonReport{p.name, p.running, len(p.turns)})
	}
	slices.SortFunc(r.People, func(a, b PersonReport) int { return cmp.Compare(a.Name, b.Name) })
	return r
}
