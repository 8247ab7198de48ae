// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// mostBetween is the maximum number of blocks between a call and its result, and between the
// results of a response and its first call. Models make far fewer calls at once, and a search this
// long is cheap.
const mostBetween = 512

// CallOf returns the index of the call that a tool result answers, in the messages before it, or
// -1.
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
			break // results follow their call directly
		}
	}
	if v.Traits().LooseIDs { // the client made up an id of its own
		return callInOrder(v, i)
	}
	return -1
}

// callInOrder returns the call that a tool result without an id answers. The n-th result of a name
// belongs to the n-th call of that name in the response before it.
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
