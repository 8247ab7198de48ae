// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// slots is the number of hash slots of a cluster.
const slots = 1 << 14

// shards maps keys to the masters of a cluster, and knows the masters that do not answer.
// Operations skip these, so that the keys of other masters need not wait.
type shards struct {
	of      atomic.Pointer[[slots]uint8] // nil without a cluster
	numbers map[string]uint8             // of masters, by their ids
	lost    [sessioncache.MaxShards]atomic.Pointer[string]
}

// Shard implements [sessioncache.Sharded].
func (v *Valkey) Shard(d sessioncache.Digest) uint8 {
	of := v.shards.of.Load()
	if of == nil {
		return 0
	}
	return of[slot(v.key(beginning(d)))]
}

// lookAround reads the slots of a cluster. A slot without a master keeps its old one.
func (s *shards) lookAround(ctx context.Context, c valkey.Client) {
	ranges, err := c.Do(ctx, c.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return
	}
	next := new([slots]uint8)
	if before := s.of.Load(); before != nil {
		*next = *before
	}
	for _, r := range ranges { // first and last slot, master, replicas; each with host, port, id
		parts, err := r.ToArray()
		if err != nil || len(parts) < 3 {
			continue
		}
		first, err1 := parts[0].AsInt64()
		last, err2 := parts[1].AsInt64()
		master, err3 := parts[2].ToArray()
		if err1 != nil || err2 != nil || err3 != nil || len(master) < 3 || first < 0 || last >= slots {
			continue
		}
		id, err := master[2].ToString()
		if err != nil {
			continue
		}
		number, ok := s.numbers[id]
		if !ok {
			if s.numbers == nil {
				s.numbers = map[string]uint8{}
			}
			// 0 stands for slots without a known master.
			number = uint8(1 + len(s.numbers)%(sessioncache.MaxShards-1))
			s.numbers[id] = number
		}
		for i := first; i <= last; i++ {
			next[i] = number
		}
	}
	s.of.Store(next)
}

// lose skips a shard until it answers again. Its key is used for the retries.
func (s *shards) lose(shard uint8, key string) { s.lost[shard].CompareAndSwap(nil, &key) }

// leaves reports whether a shard is skipped.
func (s *shards) leaves(shard uint8) bool { return s.lost[shard].Load() != nil }

// try retries the lost shards, independently.
func (s *shards) try(ctx context.Context, c valkey.Client) {
	for i := range s.lost {
		lost := &s.lost[i]
		if key := lost.Load(); key != nil {
			go func() {
				ctx, cancel := context.WithTimeout(ctx, retry)
				defer cancel()
				if err := c.Do(ctx, c.B().Exists().Key(*key).Build()).NonValkeyError(); err == nil {
					lost.Store(nil)
				}
			}()
		}
	}
}

// slot returns the hash slot of a key: of the part in its first braces, if that is not empty.
func slot(key string) uint16 {
	if _, tagged, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(tagged, "}"); ok && tag != "" {
			key = tag
		}
	}
	sum := uint16(0) // CRC-16/XMODEM
	for i := range len(key) {
		sum = sum<<4 ^ nibbles[byte(sum>>12)^key[i]>>4]
		sum = sum<<4 ^ nibbles[byte(sum>>12)^key[i]&0xf]
	}
	return sum % slots
}

var nibbles = func() (table [16]uint16) {
	for i := range table {
		sum := uint16(i) << 12
		for range 4 {
			carry := sum>>15 != 0
			if sum <<= 1; carry {
				sum ^= 0x1021
			}
		}
		table[i] = sum
	}
	return table
}()

// answered reports whether the server has answered with the error.
func answered(err error) bool {
	_, ok := valkey.IsValkeyErr(err)
	return ok || valkey.IsValkeyNil(err)
}

// failed wraps an error, as ErrUnavailable if it affects the whole shard.
func failed(err error) error {
	// An error response belongs to the requested key, unless the server serves no key at all.
	if e, ok := valkey.IsValkeyErr(err); ok && !e.IsClusterDown() && !e.IsLoading() && !e.IsTryAgain() {
		return fmt.Errorf("valkey: %w", err)
	}
	return fmt.Errorf("valkey: %w: %w", sessioncache.ErrUnavailable, err)
}

// share returns the time for an optional part of an operation: half of the remaining time, and 100
// ms at most.
func share(ctx context.Context) time.Duration {
	const maxWait = 100 * time.Millisecond
	if end, ok := ctx.Deadline(); ok {
		return min(time.Until(end)/2, maxWait)
	}
	return maxWait
}

// seekApart is Seek in a cluster.
func (v *Valkey) seekApart(
	ctx context.Context, c valkey.Client, answer, d sessioncache.Digest, have sessioncache.Version,
) (of sessioncache.Digest, snapshot []byte, now sessioncache.Version, err error) {
	key := v.answer(answer)
	shard := v.shards.of.Load()[slot(key)]
	// The answer's key and the session may be at different masters. A lost master delays only its
	// own part.
	said := make(chan sessioncache.Digest, 1) // the session of the answer by its key, d if there is none
	if v.shards.leaves(shard) {
		said <- d
	} else {
		go func() {
			of := d
			b, err := c.Do(ctx, c.B().Get().Key(key).Build()).AsBytes()
			if err == nil && len(b) == len(of) {
				copy(of[:], b)
			} else if err != nil && !answered(err) && ctx.Err() == nil {
				v.shards.lose(shard, key)
			}
			said <- of
		}()
	}
	snapshot, now, err = v.Fetch(ctx, d, have)
	patience := time.NewTimer(share(ctx))
	defer patience.Stop()
	select {
	case of = <-said:
	case <-patience.C:
		v.shards.lose(shard, key)
		return d, snapshot, now, err
	}
	if of == d || v.shards.leaves(v.Shard(of)) {
		return d, snapshot, now, err
	}
	if e, unsure := v.begun(ctx, c, beginning(of)); unsure != nil || !e.has(answer) {
		return d, snapshot, now, err
	}
	return of, nil, 0, nil
}

// foundApart indexes sessions by their answers in a cluster, each master independently. It records
// the answers of lost masters in [sessioncache.Swap.Unfound].
func (v *Valkey) foundApart(ctx context.Context, c valkey.Client, all []swapping) {
	type answer struct {
		of  *sessioncache.Swap
		is  sessioncache.Digest
		key string
		ttl int64
	}
	var at map[uint8][]answer
	of := v.shards.of.Load()
	for i := range all {
		w := &all[i]
		if w.s.Err != nil || w.s.Now != w.s.Next {
			continue
		}
		for _, a := range w.s.Answers {
			if !w.lost && slices.Contains(w.known, a) {
				continue
			}
			key := v.answer(a)
			shard := of[slot(key)]
			if v.shards.leaves(shard) {
				w.s.Unfound = append(w.s.Unfound, a)
				continue
			}
			if at == nil {
				at = map[uint8][]answer{}
			}
			at[shard] = append(at[shard], answer{w.s, a, key, w.ttl})
		}
	}
	if at == nil {
		return
	}
	type result struct {
		shard uint8
		errs  []error
	}
	results := make(chan result, len(at))
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), retry) // goes on in the background after the wait
	for shard, answers := range at {
		go func() {
			commands := make([]valkey.Completed, len(answers))
			for i, a := range answers {
				commands[i] = c.B().Set().Key(a.key).Value(valkey.BinaryString(a.of.Digest[:])).PxMilliseconds(a.ttl).Build()
			}
			errs := make([]error, len(answers))
			for i, r := range c.DoMulti(detached, commands...) {
				errs[i] = r.Error()
			}
			results <- result{shard, errs}
		}()
	}
	patience := time.NewTimer(share(ctx))
	defer patience.Stop()
	for waiting := len(at); waiting > 0; waiting-- {
		select {
		case r := <-results:
			for i, err := range r.errs {
				if err == nil {
					continue
				}
				a := at[r.shard][i]
				a.of.Unfound = append(a.of.Unfound, a.is)
				if !answered(err) {
					v.shards.lose(r.shard, a.key)
				}
			}
			delete(at, r.shard)
		case <-patience.C:
			for shard, answers := range at {
				v.shards.lose(shard, answers[0].key)
				for _, a := range answers {
					a.of.Unfound = append(a.of.Unfound, a.is)
				}
			}
			// The writes under way may still succeed.
			time.AfterFunc(retry, cancel)
			return
		}
	}
	cancel()
}
