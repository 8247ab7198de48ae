// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/tidwall/gjson"

// Reasoning reads how many tokens of an answer were reasoning: what was known before, unless
// the count is one of its output.
func Reasoning(n gjson.Result, c *Counts) int64 {
	if tokens := n.Int(); tokens > 0 && tokens <= c.Usage.Output {
		return tokens
	}
	return c.Reasoning
}
