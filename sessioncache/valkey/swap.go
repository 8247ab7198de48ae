// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"context"
	"crypto/sha1" //nolint:gosec // scripts are called by it
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/valkey-io/valkey-go"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// inline is the size in bytes up to which the script writes a session itself. A larger session is
// staged under another key and then renamed, because Lua would copy it several times.
const inline = 8 << 10

// swapScript writes the session KEYS[1] if its version is ARGV[1], or if there is none. The version
// '*' matches all. The empty version, of a caller without one, also matches a deleted session. The
// new value is the one staged under KEYS[2], or else ARGV[2] for ARGV[3] milliseconds. An empty
// ARGV[2] removes the session. Without a match the script returns the present value and removes the
// staged one.
//
// The script reads the key after writing, because a server notifies only clients that have read a
// key. Numbers are strings, so that Redis need not format them.
var swapScript = fmt.Sprintf(`
local v = redis.call('GETRANGE', KEYS[1], '0', '7')
if v ~= '' and v ~= ARGV[1] and ARGV[1] ~= '*' and (ARGV[1] ~= '' or redis.call('STRLEN', KEYS[1]) > %d) then
  if KEYS[2] then
    redis.call('DEL', KEYS[2])
  end
  return redis.call('GET', KEYS[1])
end
if KEYS[2] then
  redis.call('RENAME', KEYS[2], KEYS[1])
elseif ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
redis.call('GETRANGE', KEYS[1], '0', '0')
return v == '' and 0 or 1`, headSize)

// swapSum is the SHA-1 sum by which a server calls the script.
var swapSum = func() string {
	sum := sha1.Sum([]byte(swapScript)) //nolint:gosec // it is theirs
	return hex.EncodeToString(sum[:])
}()

// anything returns the version that matches every session.
func anything(sessioncache.Version) string { return "*" }

// allAnswers is the inverse probability of writing all answers of a session again, so that they do
// not expire before it.
const allAnswers = 32

// Swap implements [sessioncache.Shared].
func (v *Valkey) Swap(ctx context.Context, swaps []*sessioncache.Swap) { v.swap(ctx, swaps, form) }

// swap writes sessions, and the index of their answers, in one round trip.
func (v *Valkey) swap(ctx context.Context, swaps []*sessioncache.Swap, have func(sessioncache.Version) string) {
	c, err := v.use()
	if err != nil {
		for _, s := range swaps {
			s.Err = err
		}
		return
	}
	var few [8]swapping
	var fewCommands [32]valkey.Completed
	all, commands := few[:0], fewCommands[:0]
	for _, s := range swaps {
		w := swapping{v: v, c: c, s: s, have: have(s.Have), ttl: v.ttl.Load(), known: s.Known, from: len(commands)}
		// Large sessions are staged first. An interrupted write leaves keys that expire like all
		// others.
		commands = w.append(commands)
		w.to = len(commands)
		all = append(all, w)
	}
	results := c.DoMulti(ctx, commands...)
	for i := range all {
		w := &all[i]
		w.s.Unfound = nil
		if w.s.Other, w.s.Now, w.s.Err = w.came(ctx, results[w.from:w.to]); w.s.Err != nil {
			// The version at the server is unknown after a failure.
			v.watch.read(beginning(w.s.Digest), 0)
		}
	}
	if v.shards.of.Load() != nil {
		v.foundApart(ctx, c, all)
	}
	// After a lost race, index entries of the losing answers may remain. They are ignored, since the
	// session does not name them.
}

// swapping is a swap under way.
type swapping struct {
	v     *Valkey
	c     valkey.Client
	s     *sessioncache.Swap
	have  string
	ttl   int64
	known []sessioncache.Digest // answers that are at the server already
	lost  bool                  // the server has lost the session, and perhaps its answers

	key, staged string // staged is empty where the script writes the session itself
	value       []byte
	from, to    int // the range of its commands
}

// append appends the commands of the swap.
func (w *swapping) append(commands []valkey.Completed) []valkey.Completed {
	if rand.N(allAnswers) == 0 { //nolint:gosec // no secret
		w.known = nil
	}
	name := beginning(w.s.Digest)
	if w.key = w.v.key(name); !w.s.Forget {
		w.value = pack(&w.s.Record, w.s.Next)
	}
	if len(w.value) > inline {
		w.staged = stagingKey(w.key, w.s.Next)
		commands = append(commands,
			w.c.B().Set().Key(w.staged).Value(valkey.BinaryString(w.value)).PxMilliseconds(w.ttl).Build())
	}
	keys, args := w.call()
	commands = append(commands,
		w.c.B().Evalsha().Sha1(swapSum).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	w.v.watch.writes(name)
	if w.v.shards.of.Load() != nil { // the answers may be at other masters
		return commands
	}
	return w.found(commands, false)
}

// call returns the arguments of the script.
func (w *swapping) call() (keys, args []string) {
	if w.staged != "" {
		return []string{w.key, w.staged}, []string{w.have}
	}
	return []string{w.key}, []string{w.have, valkey.BinaryString(w.value), strconv.FormatInt(w.ttl, 10)}
}

// found appends the commands that index the session by its answers: the known answers, or the
// others.
func (w *swapping) found(commands []valkey.Completed, known bool) []valkey.Completed {
	for _, a := range w.s.Answers {
		if slices.Contains(w.known, a) == known {
			commands = append(commands,
				w.c.B().Set().Key(w.v.answer(a)).Value(valkey.BinaryString(w.s.Digest[:])).PxMilliseconds(w.ttl).Build())
		}
	}
	return commands
}

// came evaluates the results of the commands.
func (w *swapping) came(
	ctx context.Context, results []valkey.ValkeyResult,
) (other []byte, now sessioncache.Version, err error) {
	if w.staged != "" {
		if err := results[0].Error(); err != nil {
			return nil, 0, failed(err)
		}
		results = results[1:]
	}
	swapped := results[0]
	// The server does not know the script yet.
	if e, ok := valkey.IsValkeyErr(swapped.Error()); ok && e.IsNoScript() {
		keys, args := w.call()
		swapped = w.c.Do(ctx, w.c.B().Eval().Script(swapScript).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	}
	said, err := swapped.ToMessage()
	if err != nil {
		return nil, 0, failed(err)
	}
	reuse.Recycle(w.value) // written, and not needed again
	if said.IsString() {
		other, err := said.AsBytes()
		if err != nil {
			return nil, 0, failed(err)
		}
		e := unpack(other)
		return e.snapshot, e.version, nil
	}
	before, err := said.AsInt64()
	if err != nil {
		return nil, 0, failed(err)
	}
	if w.v.watch.wrote(beginning(w.s.Digest), w.s.Next); w.s.Forget {
		w.v.watch.forget(beginning(w.s.Digest))
		return nil, w.s.Next, nil
	}
	results = results[1:]
	w.lost = before == 0
	// The known answers are lost with the session, and written again.
	if w.lost && len(w.known) > 0 && w.v.shards.of.Load() == nil {
		results = append(results, w.c.DoMulti(ctx, w.found(nil, true)...)...)
	}
	for _, res := range results {
		err := res.Error()
		if err != nil && answered(err) { // the session itself was written
			w.s.Unfound = w.s.Answers
		} else if err != nil {
			return nil, 0, failed(err)
		}
	}
	return nil, w.s.Next, nil
}
