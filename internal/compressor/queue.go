// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Job is a text to shorten while nobody waits.
type Job struct {
	// ID names the text.
	ID ID
	// Tenant is whose text it is.
	Tenant sessioncache.Tenant
	// Text is the text, of which the part Rate of the tokens of its prose is to be
	// kept, if it has Least characters of that.
	Text  string
	Rate  float64
	Least int
	// Done is told what was found out.
	Done func(pipeline.Shortened)
}

// ID names a text: its session by the public id, and its block. It waits once.
type ID struct {
	Session string
	Block   wire.Hash
}

// tenantShare is the part of the queue that one tenant may fill: one in so many.
const tenantShare = 4

// queue holds what waits, up to a number of bytes. Tenants take turns. It is used by one
// goroutine at a time.
type queue struct {
	limit, bytes int64
	known        map[ID]bool // what waits, and what is being worked on
	tenants      map[sessioncache.Tenant]*waiting
	order        []sessioncache.Tenant // of whom something waits, who is next first
}

// waiting is what waits of one tenant.
type waiting struct {
	jobs  []Job
	bytes int64
}

func newQueue() *queue {
	return &queue{known: make(map[ID]bool), tenants: make(map[sessioncache.Tenant]*waiting)}
}

// put takes a job in, if there is room and it does not wait already. It reports whether
// there was room.
func (q *queue) put(j Job) bool {
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

// next takes out the oldest job of the tenant whose turn it is. It is known until it is
// done.
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
		q.order = append(q.order, t)
	} else {
		delete(q.tenants, t)
	}
	return j, true
}

// done forgets a job that next has given.
func (q *queue) done(id ID) { delete(q.known, id) }

// clear forgets everything.
func (q *queue) clear() {
	limit := q.limit
	*q = *newQueue()
	q.limit = limit
}
