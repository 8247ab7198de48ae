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

// shards knows which master of a cluster keeps which key, and which of them do not answer.
// What lies at one of these is left out, so that nothing else waits for it.
type shards struct {
	of      atomic.Pointer[[slots]uint8] // nil where there is no cluster
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

// lookAround asks a cluster where its slots are. A slot that nobody speaks for stays where it was.
func (s *shards) lookAround(ctx context.Context, c valkey.Client) {
	ranges, err := c.Do(ctx, c.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return
	}
	next := new([slots]uint8)
	if before := s.of.Load(); before != nil {
		*next = *before
	}
	for _, r := range ranges { // first and last slot, master, replicas; of each host, port, id
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
			number = uint8(1 + len(s.numbers)%(sessioncache.MaxShards-1))
			s.numbers[id] = number
		}
		for i := first; i <= last; i++ {
			next[i] = number
		}
	}
	s.of.Store(next)
}

// lose has a shard left out until it answers again, which is tried with a key that lies there.
func (s *shards) lose(shard uint8, key string) { s.lost[shard].CompareAndSwap(nil, &key) }

// leaves reports whether a shard is left out.
func (s *shards) leaves(shard uint8) bool { return s.lost[shard].Load() != nil }

// try asks those who were lost, each by itself.
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

// slot is where a cluster keeps a key: by what stands in its first braces, if anything does.
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

// told reports whether an error is what the server has answered.
func told(err error) bool {
	_, ok := valkey.IsValkeyErr(err)
	return ok || valkey.IsValkeyNil(err)
}

// failed names an error. One that the server has answered belongs to the key that was asked
// for, unless it says that the server answers no key yet, or no more: the client goes on to ask
// in vain then. Any other belongs to all that lies there.
func failed(err error) error {
	if e, ok := valkey.IsValkeyErr(err); ok && !e.IsClusterDown() && !e.IsLoading() && !e.IsTryAgain() {
		return fmt.Errorf("valkey: %w", err)
	}
	return fmt.Errorf("valkey: %w: %w", sessioncache.ErrUnavailable, err)
}

// share is how long an operation waits for what it can do without: half of what is left
// to it, and 100 ms at most.
func share(ctx context.Context) time.Duration {
	const most = 100 * time.Millisecond
	if end, ok := ctx.Deadline(); ok {
		return min(time.Until(end)/2, most)
	}
	return most
}

// seekApart is Seek in a cluster. Where an answer was given may be known by another master
// than the session is: one that is lost takes no time from the other.
func (v *Valkey) seekApart(ctx context.Context, c valkey.Client, answer, d sessioncache.Digest, have sessioncache.Version) (of sessioncache.Digest, snapshot []byte, now sessioncache.Version, err error) {
	key := v.answer(answer)
	shard := v.shards.of.Load()[slot(key)]
	said := make(chan sessioncache.Digest, 1) // where the answer was given, as its key says; d if nowhere
	if v.shards.leaves(shard) {
		said <- d
	} else {
		go func() {
			of := d
			b, err := c.Do(ctx, c.B().Get().Key(key).Build()).AsBytes()
			if err == nil && len(b) == len(of) {
				copy(of[:], b)
			} else if err != nil && !told(err) && ctx.Err() == nil {
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

// foundApart has sessions found by their answers in a cluster, each master by itself. What
// could not be written where a master is lost is noted.
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
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), retry) // those who wait no longer leave it to itself
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
				if !told(err) {
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
			time.AfterFunc(retry, cancel)
			return
		}
	}
	cancel()
}
