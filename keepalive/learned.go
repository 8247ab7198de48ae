// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"hash/fnv"
	"sync"
	"time"
)

// Habit names a group of pauses to learn from: a tenant, its client program and the hour of the day.
type Habit struct {
	// Tenant is a keyed hash of the credential.
	Tenant [16]byte
	// Client is a hash that separates the programs of one tenant.
	Client uint64
	// Hour is the hour of the day at which the pause began, from 0 to 23.
	Hour uint8
}

// Client returns the hash of a program's name for a [Habit].
func Client(name string) uint64 {
	f := fnv.New64a()
	_, _ = f.Write([]byte(name))
	return f.Sum64()
}

const (
	// shrink is the number of expected returns at which the observed pauses weigh as much as the prior.
	shrink = 12
	// maxHabits limits the habits in memory.
	maxHabits = 4096
	// noHour stands for all hours. A zero Client stands for all clients.
	noHour = 255
	// patience is the age after which a pause counts as no return.
	patience = 4 * time.Hour
)

// Learned corrects the prior by observed pauses. The returns of a group are Poisson around the
// prior's expectation times a factor of the group. That factor has a gamma prior around the factor
// of the wider group: all, tenant, client or hour of the tenant. Learned is safe for concurrent
// use. Its zero value has learned nothing.
type Learned struct {
	mu     sync.Mutex
	counts map[Habit]count
}

// count has the returns seen, and the returns that the prior expected.
type count struct{ seen, expected float64 }

// Observe counts a pause that ended in a return, or was given up, at an age.
func (l *Learned) Observe(h Habit, m Moment, age time.Duration, returned bool) {
	if age <= onset {
		return
	}
	prior := Prior(m)
	expected := prior.exposure(onset, age)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = map[Habit]count{}
	}
	for _, k := range h.groups() {
		c, ok := l.counts[k]
		if !ok && len(l.counts) >= maxHabits {
			for other := range l.counts { // any one will do
				delete(l.counts, other)
				break
			}
		}
		c.expected += expected
		c.seen += yes(returned)
		l.counts[k] = c
	}
}

// Chance returns the distribution for a pause that begins now.
func (l *Learned) Chance(h Habit, m Moment) Chance {
	l.mu.Lock()
	defer l.mu.Unlock()
	groups := h.groups()
	factor := func(k Habit, wider float64) float64 {
		c := l.counts[k]
		return wider * (shrink + c.seen) / (shrink + c.expected*wider)
	}
	tenant := factor(groups[0], 1)
	// Both factors include the tenant's.
	f := factor(groups[1], tenant) * factor(groups[2], tenant) / tenant
	return Prior(m).Times(f)
}

func (h Habit) groups() [3]Habit {
	return [3]Habit{
		{Tenant: h.Tenant, Hour: noHour},
		{Tenant: h.Tenant, Client: h.Client, Hour: noHour},
		{Tenant: h.Tenant, Hour: h.Hour},
	}
}
