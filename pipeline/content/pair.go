// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// mostBetween is the number of blocks between a call and its result, and between
// the results of an answer and its first call, up to which they are found: far more
// than models call tools at once, and little enough to look for each.
const mostBetween = 512

// CallOf finds the call that a tool result answers, in the messages before it:
// its index, or -1.
func CallOf(v *wire.View, i int) int {
	blocks := v.MessageBlocks()
	id := v.Bytes(blocks[i].ID)
	if len(id) == 0 {
		return callInOrder(v, i)
	}
	for j := i - 1; j >= max(0, i-mostBetween); j-- {
		b := &blocks[j]
		if b.Kind == wire.KindToolUse && string(v.Bytes(b.ID)) == string(id) {
			return j
		}
		if b.Role == wire.RoleAssistant && b.Message+2 < blocks[i].Message && v.Traits().ResultsFollow {
			break // results follow their call at once
		}
	}
	if v.Traits().LooseIDs { // the client has made up an id of its own
		return callInOrder(v, i)
	}
	return -1
}

// callInOrder finds the call that a tool result without an id answers: of the
// calls of its name in the answer before it, the one that has as many in front
// of it as the result has results of that name.
func callInOrder(v *wire.View, i int) int {
	blocks := v.MessageBlocks()
	name := v.Bytes(blocks[i].Name)
	if len(name) == 0 {
		return -1
	}
	same := func(j int, k wire.Kind) bool {
		return blocks[j].Kind == k && string(v.Bytes(blocks[j].Name)) == string(name)
	}
	before, j, least := 0, i-1, max(0, i-2*mostBetween)
	for ; j >= least && blocks[j].Role != wire.RoleAssistant; j-- {
		if same(j, wire.KindToolResult) {
			before++
		}
	}
	first := j
	for first > least && blocks[first-1].Role == wire.RoleAssistant {
		first--
	}
	if j < least || first == least && least > 0 {
		return -1
	}
	for n := max(first, 0); n <= j; n++ {
		if !same(n, wire.KindToolUse) {
			continue
		}
		if before == 0 {
			return n
		}
		before--
	}
	return -1
}
