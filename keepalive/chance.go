// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"math"
	"time"
)

// Moment is the state of a conversation when it falls idle.
type Moment struct {
	// Tool reports whether the last response asked for a tool call: the agent goes on by itself, or
	// a user has to approve the call first.
	Tool bool
	// Question reports whether the last response ends in a question.
	Question bool
	// Prompts is the number of human prompts so far.
	Prompts int
	// Pauses is the number of earlier pauses in this conversation that outlasted the cache's lifetime.
	Pauses int
}

// edges divide the ages of a pause. Within an interval, the rate of return is constant per unit of
// the logarithm of the age. The last interval has no end.
var edges = [...]time.Duration{4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute}

// onset is the age from which a pause counts as one.
const onset = 4 * time.Minute

// The terms of the model.
const (
	termOne      = iota // the constant
	termTool            // the last response asked for a tool call
	termFirst           // at most one human prompt so far, and no tool call pending
	termQuestion        // the last response ends in a question
	termPauses          // earlier pauses, up to three, as a share of three
	termAge             // from here on: older than edges[1], edges[2], …
	terms        = termAge + len(edges) - 1
)

type features [terms]float64

// features returns the terms of a moment, without those of age.
func (m *Moment) features() features {
	return features{
		termOne:      1,
		termTool:     yes(m.Tool),
		termFirst:    yes(m.Prompts <= 1 && !m.Tool),
		termQuestion: yes(m.Question && !m.Tool),
		termPauses:   float64(min(m.Pauses, 3)) / 3,
	}
}

func yes(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Chance is the distribution of the length of a pause that has reached an age of four minutes. Its
// rates are per unit of the logarithm of the age.
type Chance struct {
	// The longer a user is away, the longer the absence lasts: the rate of return falls about
	// with the inverse of the age.
	rates [len(edges)]float64
}

// Prior returns the chance fitted on the recorded conversations alone.
func Prior(m Moment) Chance { return chance(&weights, m) }

func chance(w *features, m Moment) (c Chance) {
	// The logarithm of the rate is linear in the terms. Terms of age shift it from the second interval on.
	x, z := m.features(), 0.0
	for i := range termAge {
		z += w[i] * x[i]
	}
	for i := range c.rates {
		if i > 0 {
			c.rates[i] = math.Exp(z + w[termAge+i-1])
		} else {
			c.rates[i] = math.Exp(z)
		}
	}
	return c
}

// Times returns the chance with all rates multiplied.
func (c Chance) Times(by float64) Chance {
	for i := range c.rates {
		c.rates[i] *= by
	}
	return c
}

// Away is the probability that a client absent at age from is still absent at age to.
func (c *Chance) Away(from, to time.Duration) float64 { return math.Exp(-c.exposure(from, to)) }

// exposure is the expected number of returns between two ages, repeated returns included.
func (c *Chance) exposure(from, to time.Duration) float64 {
	sum := 0.0
	for i, lo := range edges {
		hi := to
		if i+1 < len(edges) {
			hi = min(to, edges[i+1])
		}
		if lo = max(lo, from); hi > lo {
			// Within an interval, the rate is constant in the logarithm of the age.
			sum += c.rates[i] * math.Log(float64(hi)/float64(lo))
		}
	}
	return sum
}
