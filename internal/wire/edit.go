// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

// Op is the operation of an edit.
type Op uint8

const (
	// OpReplace replaces the block's Body by Value, a JSON value. If Body is the whole response of
	// a Gemini function, a string value becomes {"output": …}.
	OpReplace Op = iota
	// OpRemove removes the block and its comma from the message. Splice refuses to remove a
	// message's last block.
	OpRemove
	// OpMark sets the block's cache_control (in the Responses API prompt_cache_breakpoint) to
	// Value, a JSON value. A FlagString block becomes an array of one text block. An existing
	// cache_control is replaced. An existing prompt_cache_breakpoint is an error, as is any OpMark
	// in the Gemini format.
	OpMark
	// OpBefore inserts Value, one element, before the block in its array: a message's content, its
	// tool calls, or the tools. A string content becomes an array.
	OpBefore
	// OpAfter inserts like OpBefore, after the block.
	OpAfter
	// OpSplit splits the block's message before the block and inserts Value, one or more
	// comma-separated messages. The block continues in a new message of the same role.
	OpSplit
	// OpBeforeMessage inserts Value, one or more comma-separated messages, before the block's
	// message.
	OpBeforeMessage
	// OpAfterMessage inserts like OpBeforeMessage, after the message.
	OpAfterMessage
)

// Edit is one change of one block.
type Edit struct {
	// Block is an index in [View.Blocks].
	Block int
	// Op is the operation.
	Op Op
	// Value is a JSON value, see Op.
	Value []byte
}
