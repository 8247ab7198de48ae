// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import "bytes"

// MaxValues bounds the values in a body, whatever they are part of. The longest recorded
// conversation has some ten thousand, and a context of a million tokens has no room for
// as many; each costs some hundred nanoseconds of everyone who looks for a member among
// them.
const MaxValues = 1 << 20

// Crowded reports whether a body may hold more values than are read, [Values] of it being
// more than [MaxValues].
func Crowded(body []byte) bool { return Exceeds(body, MaxValues) }

// Values counts the values that a part of a body may hold: its commas and opening brackets,
// wherever they stand. Those in strings count, too: inputs and results are JSON in strings,
// which is looked into, and a text with as many as are too many is longer than any context.
func Values(part []byte) (n int) {
	for len(part) > 0 {
		step := part[:min(countStep, len(part))]
		for i := range separators {
			n += bytes.Count(step, separators[i:i+1])
		}
		part = part[len(step):]
	}
	return n
}

// Exceeds reports whether a part of a body has more than so many [Values]. It counts no
// further than it has to.
func Exceeds(part []byte, most int) bool {
	for most >= 0 && len(part) > most {
		step := part[:min(countStep, len(part))]
		most -= Values(step)
		part = part[len(step):]
	}
	return most < 0
}

// countStep fits in the processor's nearest cache.
const countStep = 16 << 10

var separators = []byte(",{[")
