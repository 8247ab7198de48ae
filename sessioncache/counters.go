// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"time"
)

// Counters is an optional interface of a [Shared] backend: sums of all its processes, by which budgets
// hold across them. Test an implementation with storetest.Counters.
type Counters interface {
	// Count makes one count, all of it or nothing, before or after those of other processes. An
	// error does not tell whether the count was made.
	Count(ctx context.Context, c *Count) error
}

// Units is the number of units that a sum counts.
const Units = 4

// Amount is an amount in each unit. The backend need not know the units.
type Amount [Units]int64

// Count is a set of additions and reservations, with its results. The backend makes it in this order:
//
//  1. Each sum below its floor is raised to it.
//  2. Reservations of other processes that are past their lease end.
//  3. If a limit is reached, Refused is set, and the rest is left out.
//  4. The additions are made, unless Once is set and was made before.
//  5. The reservations of this process are replaced, but for those that a later count has replaced.
type Count struct {
	// Process names the process, at random.
	Process uint64
	// Number orders the counts of a process. They may arrive in another order.
	Number uint64
	// Once is the number of a batch of additions, 0 for none. A batch of a process that is not
	// above an earlier one was made before.
	Once uint64
	// Lease is how long the reservations of this count stay if no other count renews them.
	Lease time.Duration
	// Sums, Reserved and Limits are what is counted. All may be empty.
	Sums     []Sum
	Reserved []Reserved
	Limits   []Limit

	// Refused is a result: a limit was reached.
	Refused bool
}

// Sum is the sum of an account in a period.
type Sum struct {
	// Account is the account, a keyed hash.
	Account [16]byte
	// Period and Begins name the period, which begins at a time in Unix seconds.
	Period byte
	Begins int64
	// Ends is when the sum may be forgotten.
	Ends time.Time
	// Floor is what the sum is known to have reached: a server may have lost a part.
	Floor Amount
	// Add is added to the sum.
	Add Amount

	// Now is a result: the sum before the addition.
	Now Amount
}

// Reserved is the sum of a process's open reservations for an account.
type Reserved struct {
	// Account is the account, a keyed hash.
	Account [16]byte
	// Open is the sum of the reservations before this count, and Add the reservation that the count
	// makes. Both replace the process's earlier sum.
	Open, Add Amount

	// Others is a result: the sum of the other processes' reservations.
	Others Amount
}

// Limit refuses a count once a sum has reached it, alone or with all reservations before this one.
type Limit struct {
	// Sum and Reserved are indices of Sums and Reserved.
	Sum, Reserved int
	// Unit is the index of the limit's unit.
	Unit int
	// Max is the limit.
	Max int64
}

// Counters returns the shared counters of the opened backend, nil if it has none
// or is closed.
func (st *Store) Counters() Counters {
	p := st.Persister()
	if p == nil || !p.opened() || p.isEnded() {
		return nil
	}
	c, _ := p.back.(Counters)
	return c
}

func (p *Persister) isEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}
