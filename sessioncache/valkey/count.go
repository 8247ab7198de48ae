// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"context"
	"crypto/sha1" //nolint:gosec // scripts are called by it
	_ "embed"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// countScript makes a [sessioncache.Count].
//
//go:embed count.lua
var countScript string

// batchTTL is how long the number of a process's last batch of additions is kept. A batch is tried
// again for that time at least.
const batchTTL = 24 * time.Hour

// countSum is the SHA-1 sum by which a server calls the script.
var countSum = func() string {
	sum := sha1.Sum([]byte(countScript)) //nolint:gosec // it is theirs
	return hex.EncodeToString(sum[:])
}()

var errCount = errors.New("valkey: the result of a count has another form")

// budgets begins the keys of all counters. A cluster keeps them on one node, so that one script can
// use them all.
func (v *Valkey) budgets() string { return v.o.Prefix + "{budgets}:" }

// Count implements [sessioncache.Counters].
func (v *Valkey) Count(ctx context.Context, c *sessioncache.Count) error {
	client, err := v.use()
	if err != nil {
		return err
	}
	keys, args := v.countCall(c)
	evaluate := client.B().Evalsha().Sha1(countSum).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	said := client.Do(ctx, evaluate)
	// The server does not know the script yet.
	if e, ok := valkey.IsValkeyErr(said.Error()); ok && e.IsNoScript() {
		whole := client.B().Eval().Script(countScript).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
		said = client.Do(ctx, whole)
	}
	words, err := said.ToArray()
	if err != nil {
		return failed(err)
	}
	if len(words) != 1+sessioncache.Units*(len(c.Sums)+len(c.Reserved)) {
		return errCount
	}
	refused, err := words[0].AsInt64()
	if err != nil {
		return errCount
	}
	words = words[1:]
	read := func(to *sessioncache.Amount) {
		for u := range to {
			n, bad := words[u].AsInt64()
			if bad != nil {
				err = errCount
			}
			to[u] = n
		}
		words = words[sessioncache.Units:]
	}
	for i := range c.Sums {
		read(&c.Sums[i].Now)
	}
	for i := range c.Reserved {
		read(&c.Reserved[i].Others)
	}
	c.Refused = refused != 0
	return err
}

// countCall returns the arguments of the script.
func (v *Valkey) countCall(c *sessioncache.Count) (keys, args []string) {
	prefix := v.budgets()
	process := strconv.FormatUint(c.Process, 16)
	keys = append(keys, prefix+"batch:"+process)
	number := func(n int64) { args = append(args, strconv.FormatInt(n, 10)) }
	amount := func(a *sessioncache.Amount) {
		for _, n := range a {
			number(n)
		}
	}
	args = append(args, process, strconv.FormatUint(c.Number, 10), strconv.FormatUint(c.Once, 10))
	number(batchTTL.Milliseconds())
	number(c.Lease.Milliseconds())
	number(sessioncache.Units)
	number(int64(len(c.Sums)))
	number(int64(len(c.Reserved)))
	number(int64(len(c.Limits)))
	for i := range c.Sums {
		s := &c.Sums[i]
		keys = append(keys, prefix+"spent:"+hex.EncodeToString(s.Account[:])+":"+strconv.Itoa(int(s.Period))+":"+
			strconv.FormatInt(s.Begins, 10))
		number(s.Ends.UnixMilli())
		amount(&s.Floor)
		amount(&s.Add)
	}
	for i := range c.Reserved {
		r := &c.Reserved[i]
		keys = append(keys, prefix+"reserved:"+hex.EncodeToString(r.Account[:]))
		amount(&r.Open)
		amount(&r.Add)
	}
	for _, l := range c.Limits {
		number(int64(l.Sum))
		number(int64(l.Reserved))
		number(int64(l.Unit + 1))
		number(l.Max)
	}
	return keys, args
}
