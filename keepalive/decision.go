// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import "time"

// Case is what the decision about one pause depends on.
type Case struct {
	// Chance is how long the pause may last.
	Chance Chance
	// Lifetime is how long the cache outlives the start of the last request or
	// ping.
	Lifetime time.Duration
	// Every is the time from one of these to the next ping, shorter than
	// Lifetime.
	Every time.Duration
	// Ping is what a ping costs, and Gain what a return saves that finds the
	// cache alive and else would not: shares of one prompt at the price of
	// uncached input.
	Ping, Gain float64
	// Most is the number of pings that this pause may have in all.
	Most int
}

// Plan returns how many pings a pause should have in all, of which some were
// sent, and what those to come are expected to earn, in units of one prompt at
// the price of uncached input. No more are worth it when the number is not
// larger than what was sent.
//
// The k-th ping goes out at age k·Every and keeps the cache alive for another
// Lifetime. It earns Gain if the client comes back behind the end of what the
// one before it kept alive. The plan is found from the last ping back: what
// those behind a ping would earn counts as far as the client is still away.
func Plan(c *Case, sent int) (n int, value float64) {
	if c.Every <= 0 || c.Every >= c.Lifetime || c.Most <= sent {
		return sent, 0
	}
	goes := make([]bool, c.Most+1)
	then := c.held(c.Most + 1) // expected gain, away at the time of the next ping
	for k := c.Most; k > sent; k-- {
		at := time.Duration(k) * c.Every
		stay := c.Chance.Away(at, at+c.Every)
		value = -c.Ping + c.Gain*(c.Chance.Away(at, at-c.Every+c.Lifetime)-stay) + stay*then
		goes[k] = value > 0
		value = max(value, 0)
		then = c.held(k) + value
	}
	for n = sent; n < c.Most && goes[n+1]; n++ {
	}
	return n, value
}

// held is what a client earns who is away at the time of the k-th ping and
// comes back while the one before it still keeps the cache alive. What the
// request itself keeps alive is nobody's gain.
func (c *Case) held(k int) float64 {
	if k == 1 {
		return 0
	}
	at := time.Duration(k) * c.Every
	return c.Gain * (1 - c.Chance.Away(at, at-c.Every+c.Lifetime))
}
