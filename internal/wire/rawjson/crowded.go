// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import "bytes"

// MaxValues is the maximum number of JSON values in a body. The longest recorded conversation has
// some ten thousand, and a context of a million tokens has fewer than the limit. Each value costs
// about 100 ns in every search for a member.
const MaxValues = 1 << 20

// Crowded reports whether a body may have more than [MaxValues] values, by the count of [Values].
func Crowded(body []byte) bool { return Exceeds(body, MaxValues) }

// Values returns an upper bound on the number of values in a part of a body: its commas and opening
// brackets. Strings are included, because inputs and results are JSON in strings and get parsed. A
// text with too many commas would exceed any context anyway.
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

// Exceeds reports whether a part of a body has more than most [Values]. It stops counting at the
// limit.
func Exceeds(part []byte, most int) bool {
	for most >= 0 && len(part) > most {
		step := part[:min(countStep, len(part))]
		most -= Values(step)
		part = part[len(step):]
	}
	return most < 0
}

// countStep fits in the L1 cache.
const countStep = 16 << 10

var separators = []byte(",{[")
