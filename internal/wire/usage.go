// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/tidwall/gjson"

// Timings reads the timings of a llama.cpp server as a usage.
func Timings(t gjson.Result) Usage {
	return Usage{
		Uncached: Count(t.Get("prompt_n")),
		Read:     Count(t.Get("cache_n")),
		Output:   Count(t.Get("predicted_n")),
		Reported: true,
	}
}

// Reasoning reads how many tokens of an answer were reasoning: what was known before, unless
// the count is one of its output.
func Reasoning(n gjson.Result, c *Counts) int64 {
	if tokens := n.Int(); tokens > 0 && tokens <= c.Usage.Output {
		return tokens
	}
	return c.Reasoning
}
