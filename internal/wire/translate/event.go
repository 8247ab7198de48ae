// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// An answer is a sequence of neutral events: it starts, blocks are opened, filled and closed one
// after another, and it finishes, fails, or is cut off. The reader of one format calls the methods
// of [Flow], which puts the events in order for the writer of another.

// AnswerWriter writes an answer in a client's format. Calls come in this order: Start; Open, Delta
// and Close for each block in turn; Finish. Ping may come at any time. Fail may replace the
// remaining calls at any time.
type AnswerWriter interface {
	// Start begins the answer.
	Start(m *Answer)
	// Open begins a block.
	Open(b *Block)
	// Delta adds to an open block. The text is the inside of a JSON string with its escapes; such
	// texts can be concatenated. It is only valid during Delta.
	Delta(b *Block, text string)
	// Close ends a block. Its signature is now set.
	Close(b *Block)
	// Finish ends the answer. The reason and the usage are now set.
	Finish(m *Answer)
	// Fail ends the answer in an error.
	Fail(f *Failure)
	// Ping forwards a sign of life from the upstream.
	Ping()
}

// Answer is the state of a whole answer.
type Answer struct {
	// ID and Model are the values for the client.
	ID, Model string
	// Usage is the usage so far, Reasoning the number of output tokens for reasoning.
	Usage     wire.Usage
	Reasoning int64
	// Sequence is the matched stop sequence, escaped.
	Sequence string
	// Word is the upstream's stop reason if it is unknown.
	Word string
	// Started: the start was written. Written: a block was written.
	Started, Written bool
	// Refused: the answer has a separate member with a refusal.
	Refused bool

	stop  wire.StopReason
	calls int
}

// Reason returns the stop reason. Calls always have a stop reason of their own.
func (m *Answer) Reason() wire.StopReason {
	switch {
	case m.stop == wire.StopEnd || m.stop == wire.StopUnknown || m.stop == wire.StopCalls:
		// Some APIs have no stop reason for calls.
		if m.calls > 0 {
			return wire.StopCalls
		}
		if m.Refused {
			return wire.StopRefusal
		}
		return wire.StopEnd
	}
	return m.stop
}

// BlockKind is the type of an answer's block.
type BlockKind uint8

// The kinds of blocks.
const (
	TextBlock BlockKind = iota
	ThinkingBlock
	CallBlock
	ImageBlock
)

// Block is one block of an answer.
type Block struct {
	// Kind is the type of the block.
	Kind BlockKind
	// At is the writer's number of the block, Place a call's number among the calls.
	At, Place int
	// ID and Name are a call's id and name. A reasoning item has only an ID. An image has its media
	// type as Name and base64 content.
	ID, Name string
	// Signature is set when the block is closed, for a call when it is opened.
	Signature string
	Signs     wire.Signs

	Call     Call   // the state of a call
	Item     string // the item's id (openai_responses)
	Content  []byte // the content so far, for writers that need it again
	buffered []byte // content received before the block's turn
	Filled   bool   // content was received
	Late     bool   // a text precedes it
	opened   bool
	Done     bool // complete
}

// Call is the state of a block that is a call.
type Call struct {
	initial string // escaped arguments, used if none follow
	free    bool   // the arguments are free text
	loose   bool   // no event marks the end
	args    rawjson.ObjectEnd
}

// Answering is the part of a request that its answer depends on.
type Answering struct {
	// Stream reports whether the client asked for a stream. The upstream may answer in either form.
	Stream bool
	// Usage reports whether a chat completions client asked for a separate usage chunk
	// (stream_options.include_usage). Otherwise the usage is in the chunk with the finish_reason.
	Usage bool
	// Model is the model name for the answer. Default: the upstream's.
	Model string
	// Names maps tool names back to the client's. Nil: all names are the same.
	Names *Names
	// Stop are stop sequences that were not sent to the upstream.
	Stop []string
	// BufferCalls buffers each tool call until it is complete.
	BufferCalls bool
	// JoinCalls sends the calls of BufferCalls together, in the chunk with the finish_reason. Only
	// toward openai_chat.
	JoinCalls bool
	// UniqueID is a unique part for the answer's id, "" to use the upstream's id. Some servers reuse
	// ids, and clients merge answers with equal ids.
	UniqueID string
	// InlineThinking turns <think>…</think> at the start of a text into thinking.
	InlineThinking bool
	// Empty drops the whole content: the client asked for none, and the upstream only supports a
	// minimum above zero.
	Empty bool
	// Array sends a streamed answer of gemini as one JSON array, the API's form without alt=sse.
	Array bool
	// Created is the time of the answer, in seconds since 1970, for formats with a creation time.
	Created int64
	// Seed returns a text that is mixed into generated ids; nil for none. Equal seeds give equal ids. Most answers
	// need no generated id, so that a seed may be costly.
	Seed func() string
}
