// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import "time"

// Case is the input of the decision about one pause.
type Case struct {
	// Chance is the distribution of the length of the pause.
	Chance Chance
	// Lifetime is the time that the cache lives after the start of the last request or ping.
	Lifetime time.Duration
	// Every is the time from the last request or ping to the next ping, shorter than Lifetime.
	Every time.Duration
	// Ping is the cost of a ping. Gain is the saving of a return that finds the cache alive only
	// thanks to a ping. Both are shares of one prompt at the price of uncached input.
	Ping, Gain float64
	// MaxPings is the maximum number of pings in this pause.
	MaxPings int
}

// Plan returns how many pings a pause should have in all, sent ones included, and the expected earnings of
// the pings still to come, in units of one prompt at the price of uncached input. If n is not larger than
// sent, no further ping pays.
func Plan(c *Case, sent int) (n int, value float64) {
	if c.Every <= 0 || c.Every >= c.Lifetime || c.MaxPings <= sent {
		return sent, 0
	}
	goes := make([]bool, c.MaxPings+1)
	then := c.returnGain(c.MaxPings + 1) // expected gain, given that the client is away at the next ping
	// Backward induction: the value of the later pings counts with the probability that the client
	// is still away by then.
	for k := c.MaxPings; k > sent; k-- {
		// Ping k goes out at age k·Every and keeps the cache alive for another Lifetime.
		at := time.Duration(k) * c.Every
		stay := c.Chance.Away(at, at+c.Every)
		// The ping earns the returns between the end of the previous lifetime and the next ping.
		value = -c.Ping + c.Gain*(c.Chance.Away(at, at-c.Every+c.Lifetime)-stay) + stay*then
		goes[k] = value > 0
		value = max(value, 0)
		then = c.returnGain(k) + value
	}
	for n = sent; n < c.MaxPings && goes[n+1]; n++ {
	}
	return n, value
}

// returnGain is the expected gain from a client that is absent at ping k and returns while the previous
// ping still keeps the cache alive.
func (c *Case) returnGain(k int) float64 {
	// Until the first ping, the request itself keeps the cache alive: no ping earns that return.
	if k == 1 {
		return 0
	}
	at := time.Duration(k) * c.Every
	return c.Gain * (1 - c.Chance.Away(at, at-c.Every+c.Lifetime))
}
