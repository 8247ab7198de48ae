// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// Op is what an edit does to its block.
type Op uint8

const (
	// OpReplace puts Value, a JSON value, in the place of the block's Body. Where
	// that is the whole response of a Gemini function, a string goes in as
	// {"output": …}.
	OpReplace Op = iota
	// OpRemove takes the block out of its message, comma and all. A message
	// never loses its last block: Splice refuses that.
	OpRemove
	// OpMark gives the block a cache_control (in the Responses API a
	// prompt_cache_breakpoint) of Value, a JSON value. A FlagString block
	// becomes an array of one text block on the way. A cache_control that the
	// block has already is replaced; a prompt_cache_breakpoint is refused, and
	// so is the whole Gemini format.
	OpMark
	// OpBefore puts Value, one element, in front of the
	// block in the array that it stands in: a message's content, its tool
	// calls, or the tools. A string content becomes an array on the way.
	OpBefore
	// OpAfter does what OpBefore does, behind the block.
	OpAfter
	// OpSplit ends the block's message in front of the block, puts Value, one
	// or several whole messages with commas between, and goes on with the
	// block in a new message of the same role.
	OpSplit
	// OpBeforeMessage puts Value, one or several whole messages with commas
	// between, in front of the block's message.
	OpBeforeMessage
	// OpAfterMessage does what OpBeforeMessage does, behind the message.
	OpAfterMessage
)

// Edit is one change of one block.
type Edit struct {
	// Block is an index in [View.Blocks].
	Block int
	// Op is what to do.
	Op Op
	// Value is a JSON value, see Op.
	Value []byte
}
