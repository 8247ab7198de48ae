// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// An answer is a sequence of neutral events: it starts, blocks are opened,
// filled and closed one after another, and it finishes, or fails, or is cut.
// A reader of one format calls the methods of [Flow], which put the events into
// that order; a writer of another gets them.

// AnswerWriter puts an answer into a client's format. It is called in this order:
// Start, then Open, Delta and Close for each block in turn, then Finish; Ping
// at any time; Fail at any time in the place of all that would follow.
type AnswerWriter interface {
	// Start begins the answer.
	Start(m *Answer)
	// Open begins a block.
	Open(b *Block)
	// Delta takes more of an open block. The text is the inside of a JSON
	// string, escapes and all: such pieces may be put together and stay valid.
	// It is gone when Delta returns.
	Delta(b *Block, text string)
	// Close ends a block: its signature is known.
	Close(b *Block)
	// Finish ends the answer: why, and what it cost, is known.
	Finish(m *Answer)
	// Fail ends the answer in an error.
	Fail(f *Failure)
	// Ping passes on that the upstream still works.
	Ping()
}

// Answer is what is known of an answer as a whole.
type Answer struct {
	// ID and Model are as the client is to get them.
	ID, Model string
	// Usage is what is known of the tokens, Reasoning those of the output that were
	// reasoning.
	Usage     wire.Usage
	Reasoning int64
	// Sequence is the stop sequence that was met, escaped.
	Sequence string
	// Word is the upstream's for why the answer ended, where nobody here knows it.
	Word string
	// Started: the client has got its beginning, Written: and a block.
	Started, Written bool
	// Refused: the model has said in a member of its own that it will not answer.
	Refused bool

	stop  wire.StopReason
	calls int
}

// Reason is why the answer ended. APIs differ in whether a call has a reason of
// its own; here it has one.
func (m *Answer) Reason() wire.StopReason {
	switch {
	case m.stop == wire.StopEnd || m.stop == wire.StopUnknown || m.stop == wire.StopCalls:
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

// BlockKind is what a block of an answer is.
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
	// Kind is what the block is.
	Kind BlockKind
	// At is its number, as the writer counts, Place that of a call among the calls of
	// the answer.
	At, Place int
	// ID and Name are those of a call, or ID that of a reasoning item, or Name the media type
	// of an image, whose content is base64.
	ID, Name string
	// Signature is known when the block is closed, at a call when it is opened.
	Signature string
	Signs     wire.Signs

	Call    Call   // what it is as a call
	Item    string // the id of the item that it is (openai_responses)
	Content []byte // what was written, where a writer needs it again
	held    []byte // what came before the block's turn
	Filled  bool   // something came
	Late    bool   // it stands behind text
	opened  bool
	Done    bool // nothing more will come
}

// Call is what a block is as a call.
type Call struct {
	initial string // the arguments, if none follow, escaped
	free    bool   // the arguments are free text
	loose   bool   // nothing tells where it ends
	args    rawjson.ObjectEnd
}

// Answering is what an answer has to know of the request that it answers.
type Answering struct {
	// Stream reports whether the client asked for a stream. The upstream may
	// answer in either form.
	Stream bool
	// Usage reports whether a client of chat completions asked for a usage chunk
	// of its own (stream_options.include_usage). Without it the usage stands in
	// the chunk with the finish_reason.
	Usage bool
	// Model is the model to name in the answer. Default: as the upstream names it.
	Model string
	// Names maps the names of tools back to the client's own. Nil: all the same.
	Names *Names
	// Stop are stop sequences that the upstream knows nothing of.
	Stop []string
	// BufferCalls has each tool call held until it is complete and sent whole.
	BufferCalls bool
	// JoinCalls has the calls that BufferCalls holds sent together, in the chunk
	// with the finish_reason. Only toward openai_chat.
	JoinCalls bool
	// OwnID is a part of the answer's id that no other answer has, "" where the upstream's will
	// do: servers number answers in a circle, or all alike, and clients merge those of one id.
	OwnID string
	// InlineThinking has a text that begins with <think>…</think> begin with thinking.
	InlineThinking bool
	// Empty leaves out all that the answer says: the client asked for nothing, and
	// the upstream could not be asked for less than something.
	Empty bool
	// Array has a streamed answer of gemini sent as one JSON array, as the API
	// does for requests without alt=sse.
	Array bool
	// Created is the time of the answer, in seconds since 1970, for formats
	// that carry one.
	Created int64
	// Seed goes into ids that the upstream did not give. Equal seeds give
	// equal ids.
	Seed string
}
