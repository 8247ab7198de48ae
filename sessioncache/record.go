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

// MaxShards is the number of shards that a breaker tells apart.
const MaxShards = 256

// BreakerAt is where an operation goes: a shard of the store, and a record in it.
type BreakerAt struct {
	Shard uint8
	// RecordHealth is nil where the operation is about none in particular.
	Record *RecordHealth
}

// shard is a part of a store that can be lost without the others.
type shard struct {
	tired atomic.Int64 // until when nobody waits for it, in Unix nanoseconds
	well  atomic.Int64 // when it last took a record
}

// RecordHealth is how one record has fared. The zero value is one that is well.
type RecordHealth struct {
	tired atomic.Int64 // until when no request waits for it, in Unix nanoseconds

	mu       sync.Mutex
	failed   int64 // when it last failed; 0 if it is well
	failures int   // in a row
	due      int64 // until when it is not tried again
	blamed   bool  // the shard took others meanwhile
}

// maxWait is how many times the rest a record waits at most until it is tried again.
const maxWait = 64

// IsSlow reports whether an error is one of the whole shard: it is down, or took too long.
func IsSlow(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable)
}

// Failed notes a failure. The shard rests after one that kept somebody waiting, unless the
// record is to blame: it has failed before, and the shard took others since.
func (b *Breaker) Failed(at BreakerAt, what string, err error) {
	b.failed(what, err)
	s, now, slow := &b.shards[at.Shard], time.Now().UnixNano(), IsSlow(err)
	blamed := at.Record != nil && at.Record.fail(now, s.well.Load(), int64(b.rest), slow)
	if slow && !blamed {
		s.tired.Store(now + int64(b.rest))
	}
}

func (r *RecordHealth) fail(now, well, rest int64, slow bool) (blamed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blamed = r.blamed || r.failed != 0 && well >= r.failed
	r.failed = now
	if slow && !r.blamed { // as the others of the shard, it is tried as soon as that rests no more
		return false
	}
	r.failures++
	wait := min(rest<<min(r.failures-1, 32), maxWait*rest)
	r.due = now + wait
	if slow {
		r.tired.Store(r.due)
	}
	return r.blamed
}

// Took notes that a shard has taken a record.
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

// Rests reports whether nobody is to wait.
func (b *Breaker) Rests(at BreakerAt) bool {
	now := time.Now().UnixNano()
	return now < b.shards[at.Shard].tired.Load() || at.Record != nil && now < at.Record.tired.Load()
}

// Changed has a record tried again at once: it may be another one now. One that is to blame
// for its failures waits all the same.
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

// Failures is how often a record has failed in a row by itself.
func (r *RecordHealth) Failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}
