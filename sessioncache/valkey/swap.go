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

// inline is how large a session may be, in bytes, that is written by the script itself. A
// larger one is written aside before, and moved: Lua would copy it several times.
const inline = 8 << 10

// swapScript has a session, KEYS[1], be what was written aside, KEYS[2], or where there is
// no such key be ARGV[2], for ARGV[3] milliseconds, if it is of version ARGV[1], or not
// there. '*' stands for any version; an empty one, of who knows of none, for a session that
// was deleted, too. Where ARGV[2] is empty nothing is left of the session. Otherwise what is
// there is returned, and what was written aside is gone.
// Who has not read what he has written is told of no change of it: so it is read. Numbers
// are strings, which Redis need not format.
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

// swapSum is how a server calls the script.
var swapSum = func() string {
	sum := sha1.Sum([]byte(swapScript)) //nolint:gosec // it is theirs
	return hex.EncodeToString(sum[:])
}()

// anything is the version of a session whose place is taken whatever it is.
func anything(sessioncache.Version) string { return "*" }

// allAnswers is how often all answers of a session are written again, lest they run
// out before it: each so many times.
const allAnswers = 32

// Swap implements [sessioncache.Shared].
func (v *Valkey) Swap(ctx context.Context, swaps []*sessioncache.Swap) { v.swap(ctx, swaps, form) }

// swap writes sessions, and by which answers they are found, in one go; large ones aside at
// first, from where the script moves them. What of that is interrupted runs out like everything else.
// Of a session that others were faster to write an answer may be left that is not among
// its own: it does not count.
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
		commands = w.append(commands)
		w.to = len(commands)
		all = append(all, w)
	}
	results := c.DoMulti(ctx, commands...)
	for i := range all {
		w := &all[i]
		w.s.Unfound = nil
		if w.s.Other, w.s.Now, w.s.Err = w.came(ctx, results[w.from:w.to]); w.s.Err != nil {
			v.watch.read(beginning(w.s.Digest), 0)
		}
	}
	if v.shards.of.Load() != nil {
		v.foundApart(ctx, c, all)
	}
}

// swapping is a swap on its way.
type swapping struct {
	v     *Valkey
	c     valkey.Client
	s     *sessioncache.Swap
	have  string
	ttl   int64
	known []sessioncache.Digest // answers that need not be written
	lost  bool                  // the server has lost these, too

	key, staged string // staged is empty where the script writes the session itself
	value       []byte
	from, to    int // its commands
}

// append adds its commands to others.
func (w *swapping) append(commands []valkey.Completed) []valkey.Completed {
	if rand.N(allAnswers) == 0 { //nolint:gosec // no secret
		w.known = nil
	}
	name := beginning(w.s.Digest)
	if w.key = w.v.key(name); !w.s.Forget {
		w.value = pack(&w.s.Record, w.s.Next)
	}
	if len(w.value) > inline {
		w.staged = aside(w.key, w.s.Next)
		commands = append(commands, w.c.B().Set().Key(w.staged).Value(valkey.BinaryString(w.value)).PxMilliseconds(w.ttl).Build())
	}
	keys, args := w.call()
	commands = append(commands, w.c.B().Evalsha().Sha1(swapSum).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	w.v.watch.writes(name)
	if w.v.shards.of.Load() != nil { // the answers may lie elsewhere
		return commands
	}
	return w.found(commands, false)
}

// call returns what the script is called with.
func (w *swapping) call() (keys, args []string) {
	if w.staged != "" {
		return []string{w.key, w.staged}, []string{w.have}
	}
	return []string{w.key}, []string{w.have, valkey.BinaryString(w.value), strconv.FormatInt(w.ttl, 10)}
}

// found adds the commands that have the session found by its answers, those that are
// known to be there or the others.
func (w *swapping) found(commands []valkey.Completed, known bool) []valkey.Completed {
	for _, a := range w.s.Answers {
		if slices.Contains(w.known, a) == known {
			commands = append(commands, w.c.B().Set().Key(w.v.answer(a)).Value(valkey.BinaryString(w.s.Digest[:])).PxMilliseconds(w.ttl).Build())
		}
	}
	return commands
}

// came reads what has come of it.
func (w *swapping) came(ctx context.Context, results []valkey.ValkeyResult) (other []byte, now sessioncache.Version, err error) {
	if w.staged != "" {
		if err := results[0].Error(); err != nil {
			return nil, 0, failed(err)
		}
		results = results[1:]
	}
	swapped := results[0]
	if e, ok := valkey.IsValkeyErr(swapped.Error()); ok && e.IsNoScript() {
		keys, args := w.call()
		swapped = w.c.Do(ctx, w.c.B().Eval().Script(swapScript).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	}
	said, err := swapped.ToMessage()
	if err != nil {
		return nil, 0, failed(err)
	}
	reuse.Recycle(w.value) // it was written, and is not written again
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
	if w.lost && len(w.known) > 0 && w.v.shards.of.Load() == nil {
		results = append(results, w.c.DoMulti(ctx, w.found(nil, true)...)...)
	}
	for _, res := range results {
		err := res.Error()
		if err != nil && told(err) { // the session is there all the same
			w.s.Unfound = w.s.Answers
		} else if err != nil {
			return nil, 0, failed(err)
		}
	}
	return nil, w.s.Next, nil
}
