// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package valkey

import (
	"context"
	"crypto/sha1" //nolint:gosec // scripts are called by it
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/valkey-io/valkey-go"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// swapScript has what was written aside, KEYS[2], take the place of a session, KEYS[1], if
// that is of version ARGV[1], or not there. '*' stands for any version; an empty one, of
// who knows of none, for a session that was deleted, too. Otherwise what is there is
// returned, and what was written aside is gone. The snapshot itself never passes through
// Lua, which would copy it several times.
var swapScript = fmt.Sprintf(`
local v = redis.call('GETRANGE', KEYS[1], 0, 7)
if v ~= '' and v ~= ARGV[1] and ARGV[1] ~= '*' and (ARGV[1] ~= '' or redis.call('STRLEN', KEYS[1]) > %d) then
  redis.call('DEL', KEYS[2])
  return redis.call('GET', KEYS[1])
end
redis.call('RENAME', KEYS[2], KEYS[1])
return v == '' and 0 or 1`, headSize)

// swapSum is how a server calls the script.
var swapSum = func() string {
	sum := sha1.Sum([]byte(swapScript)) //nolint:gosec // it is theirs
	return hex.EncodeToString(sum[:])
}()

// anything is the version of a session whose place is taken whatever it is.
const anything = "*"

// Swap implements [sessioncache.Shared].
func (v *Valkey) Swap(ctx context.Context, r sessioncache.Record, have, next sessioncache.Version) ([]byte, sessioncache.Version, error) {
	return v.swap(ctx, &r, form(have), next)
}

// allAnswers is how often all answers of a session are written again, lest they run
// out before it: each so many times.
const allAnswers = 32

// swap writes a session, and by which answers it is found, in one go: aside at first, from
// where the script moves it. What of that is interrupted runs out like everything else.
// Of a session that others were faster to write an answer may be left that is not among
// its own: it does not count.
func (v *Valkey) swap(ctx context.Context, r *sessioncache.Record, have string, next sessioncache.Version) ([]byte, sessioncache.Version, error) {
	c, err := v.use()
	if err != nil {
		return nil, 0, err
	}
	var few [8]valkey.Completed
	ttl, known := v.ttl.Load(), r.Known
	if rand.N(allAnswers) == 0 { //nolint:gosec // no secret
		known = nil
	}
	key, value := v.key(beginning(r.Digest)), pack(r, next)
	staged := aside(key, next)
	all := append(few[:0],
		c.B().Set().Key(staged).Value(valkey.BinaryString(value)).PxMilliseconds(ttl).Build(),
		c.B().Evalsha().Sha1(swapSum).Numkeys(2).Key(key, staged).Arg(have).Build(),
		v.part(c, beginning(r.Digest), versionSize-1)) // who has not read it is told of no change
	v.watch.begin(beginning(r.Digest))
	for _, a := range r.Answers {
		if !slices.Contains(known, a) {
			all = append(all, v.found(c, a, r.Digest, ttl))
		}
	}
	results := c.DoMulti(ctx, all...)
	if err := results[0].Error(); err != nil {
		return nil, 0, fmt.Errorf("valkey: %w", err)
	}
	wire.Recycle(value) // it was written, and is not written again
	swapped := results[1]
	if e, ok := valkey.IsValkeyErr(swapped.Error()); ok && e.IsNoScript() {
		swapped = c.Do(ctx, c.B().Eval().Script(swapScript).Numkeys(2).Key(key, staged).Arg(have).Build())
	}
	said, err := swapped.ToMessage()
	if err != nil {
		return nil, 0, fmt.Errorf("valkey: %w", err)
	}
	if said.IsString() {
		other, err := said.AsBytes()
		if err != nil {
			return nil, 0, fmt.Errorf("valkey: %w", err)
		}
		e := unpack(other)
		return e.snapshot, e.version, nil
	}
	before, err := said.AsInt64()
	if err != nil {
		return nil, 0, fmt.Errorf("valkey: %w", err)
	}
	if b, err := results[2].AsBytes(); err == nil && version(b) == next {
		v.watch.wrote(beginning(r.Digest), next)
	}
	results = results[3:]
	if before == 0 && len(known) > 0 { // the server has lost the others, too
		all = all[:0]
		for _, a := range r.Answers {
			if slices.Contains(known, a) {
				all = append(all, v.found(c, a, r.Digest, ttl))
			}
		}
		results = append(results, c.DoMulti(ctx, all...)...)
	}
	for _, res := range results {
		if err := res.Error(); err != nil {
			return nil, 0, fmt.Errorf("valkey: %w", err)
		}
	}
	return nil, next, nil
}

// found has a session found by an answer.
func (v *Valkey) found(c valkey.Client, answer, d sessioncache.Digest, ttl int64) valkey.Completed {
	return c.B().Set().Key(v.answer(answer)).Value(valkey.BinaryString(d[:])).PxMilliseconds(ttl).Build()
}
