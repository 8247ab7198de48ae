// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// MaxShards bounds the shards that a breaker distinguishes.
const MaxShards = 256

// BreakerAt is the target of an operation: a shard of the store, and a record in it.
type BreakerAt struct {
	Shard uint8
	// Record is nil where the operation concerns no single record.
	Record *RecordHealth
}

// shard is a part of a store that can fail independently.
type shard struct {
	tired atomic.Int64 // end of the rest, in Unix nanoseconds
	well  atomic.Int64 // when the shard last took a record
}

// RecordHealth is the recent history of one record. The zero value is a healthy record.
type RecordHealth struct {
	tired atomic.Int64 // requests do not wait until then, in Unix nanoseconds

	mu       sync.Mutex
	failed   int64 // when it last failed; 0 if it is healthy
	failures int   // in a row
	due      int64 // not tried again until then
	blamed   bool  // the shard took other records between failures
}

// maxWait bounds the delay until a record is tried again, in multiples of the rest.
const maxWait = 64

// IsSlow reports whether an error affects the whole shard: it is down, or took too long.
func IsSlow(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable)
}

// Failed records a failure.
func (b *Breaker) Failed(at BreakerAt, what string, err error) {
	b.failed(what, err)
	s, now, slow := &b.shards[at.Shard], time.Now().UnixNano(), IsSlow(err)
	blamed := at.Record != nil && at.Record.fail(now, s.well.Load(), int64(b.rest), slow)
	// A slow failure makes the shard rest, unless the record is to blame.
	if slow && !blamed {
		s.tired.Store(now + int64(b.rest))
	}
}

func (r *RecordHealth) fail(now, well, rest int64, slow bool) (blamed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The shard took other records since this one failed, so the record is to blame.
	r.blamed = r.blamed || r.failed != 0 && well >= r.failed
	r.failed = now
	if slow && !r.blamed { // the shard rests, and the record is tried again with the others
		return false
	}
	r.failures++
	// Exponential backoff, from one rest up to maxWait.
	wait := min(rest<<min(r.failures-1, 32), maxWait*rest)
	r.due = now + wait
	if slow {
		r.tired.Store(r.due)
	}
	return r.blamed
}

// Took records that a shard has taken a record.
func (b *Breaker) Took(at BreakerAt) {
	b.shards[at.Shard].well.Store(time.Now().UnixNano())
	r := at.Record
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed, r.failures, r.due, r.blamed = 0, 0, 0, false
	r.tired.Store(0)
}

// Rests reports whether requests must not wait for the target.
func (b *Breaker) Rests(at BreakerAt) bool {
	now := time.Now().UnixNano()
	return now < b.shards[at.Shard].tired.Load() || at.Record != nil && now < at.Record.tired.Load()
}

// Changed allows an immediate retry of a record with new content. A record that is to blame for its
// failures waits all the same.
func (r *RecordHealth) Changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.blamed {
		r.due = 0
	}
}

// Due reports whether a record may be tried.
func (r *RecordHealth) Due() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.due <= time.Now().UnixNano()
}

// Failures returns the number of failures in a row that the record itself caused.
func (r *RecordHealth) Failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}
