// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Job is a text to shorten in the background.
type Job struct {
	// ID identifies the text.
	ID ID
	// Tenant is the text's tenant.
	Tenant sessioncache.Tenant
	// Text is the text. Rate is the part of the tokens of its prose to keep. A text with less than
	// Least characters of prose is left alone.
	Text     string
	Rate     float64
	MinChars int
	// Done receives the result.
	Done func(pipeline.Shortened)
}

// ID identifies a text: the public id of its session, and its block. Each id is queued once.
type ID struct {
	Session string
	Block   wire.Hash
}

// tenantShare is the part of the queue, as a divisor, that one tenant may fill.
const tenantShare = 4

// queue has the waiting jobs, up to a number of bytes. It is used by one goroutine at a time.
type queue struct {
	limit, bytes int64
	known        map[ID]bool // jobs waiting or in progress
	tenants      map[sessioncache.Tenant]*waiting
	order        []sessioncache.Tenant // tenants with waiting jobs, the next one first
}

type waiting struct {
	jobs  []Job
	bytes int64
}

func newQueue() *queue {
	return &queue{known: make(map[ID]bool), tenants: make(map[sessioncache.Tenant]*waiting)}
}

// put queues a job, unless it waits already. It reports whether there was room.
func (q *queue) put(j Job) bool {
	// The job waits already, or is in progress.
	if q.known[j.ID] {
		return true
	}
	size := int64(len(j.Text))
	w := q.tenants[j.Tenant]
	if w == nil {
		w = new(waiting)
	}
	if q.bytes+size > q.limit || w.bytes+size > q.limit/tenantShare {
		return false
	}
	if len(w.jobs) == 0 {
		q.tenants[j.Tenant] = w
		q.order = append(q.order, j.Tenant)
	}
	w.jobs = append(w.jobs, j)
	w.bytes += size
	q.bytes += size
	q.known[j.ID] = true
	return true
}

// next removes the oldest job of the next tenant. The job stays known until done.
func (q *queue) next() (j Job, ok bool) {
	if len(q.order) == 0 {
		return j, false
	}
	t := q.order[0]
	q.order = q.order[1:]
	w := q.tenants[t]
	j, w.jobs = w.jobs[0], w.jobs[1:]
	w.bytes -= int64(len(j.Text))
	q.bytes -= int64(len(j.Text))
	if len(w.jobs) > 0 {
		// The tenant's next job waits until the other tenants had their turn.
		// Tenants take turns.
		q.order = append(q.order, t)
	} else {
		delete(q.tenants, t)
	}
	return j, true
}

func (q *queue) done(id ID) { delete(q.known, id) }

func (q *queue) clear() {
	limit := q.limit
	*q = *newQueue()
	q.limit = limit
}
