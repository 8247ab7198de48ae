// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"time"
)

// Answer is what the simulated model says to one request.
type Answer struct {
	// Blocks are the content, in order.
	Blocks []Block
	// StopReason is the API's word for why the answer ends. Default: tool_use
	// (OpenAI chat: tool_calls) if there is a call, else end_turn (stop); in the
	// Responses API completed, and any other is why it is incomplete.
	StopReason string
	// Delay passes before the first byte of the answer.
	Delay time.Duration
	// Truncate, if positive, breaks the connection after that many events of a
	// stream, or in the middle of an answer that is not streamed.
	Truncate int
	// Clean has a truncated stream end as if it were whole.
	Clean bool
	// Hang says nothing until the client is gone.
	Hang bool
	// Failure, if set, is answered in the place of the content.
	Failure *Failure
}

// BlockType is what a block of an answer is.
type BlockType string

// The types of blocks in answers.
const (
	Text     BlockType = "text"
	Thinking BlockType = "thinking"
	ToolUse  BlockType = "tool_use"
)

// Block is one block of an answer.
type Block struct {
	// Type is what the block is.
	Type BlockType
	// Text is the text or the thinking.
	Text string
	// Signature closes a thinking block of the Messages API; in the Responses
	// API it stands for the encrypted content of the reasoning.
	Signature string
	// ID, Name and Input make a tool call. Input is a JSON object, or for a
	// custom tool of the Responses API a JSON string.
	ID, Name string
	Input    json.RawMessage
	// Item is the block as an item of the Responses API, for clients that are known to
	// send it back so. Default: made of the above, with an id of its own.
	Item json.RawMessage
}

// Failure is an error of the API.
type Failure struct {
	// Status is the HTTP status. Default: 500.
	Status int
	// Type is the error's type. Default: what the API uses with the status.
	Type string
	// Code is the error_code in the details of an error of the Messages API, and the
	// code of one of OpenAI's. Default: none.
	Code string
	// Unsupported are the members that the details of an error of the Messages API
	// name. Default: none.
	Unsupported []string
	// Param is the parameter that an error of OpenAI's is about. Default: none.
	Param string
	// Message is the error's text. Default: a text that says it was asked for.
	Message string
}

// calls reports whether the answer holds a tool call.
func (a *Answer) calls() bool {
	for i := range a.Blocks {
		if a.Blocks[i].Type == ToolUse {
			return true
		}
	}
	return false
}

// tokens estimates the length of the answer, at four bytes a token.
func (a *Answer) tokens() int64 {
	n := 0
	for i := range a.Blocks {
		b := &a.Blocks[i]
		n += len(b.Text) + len(b.Name) + len(b.Input)
	}
	return int64(n+3) / 4
}

// encode writes v as compact JSON in raw UTF-8, as the APIs do: nothing that
// JSON allows is escaped.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		// Only types of this package are encoded; a script's inputs were
		// checked when it was read.
		panic("simulator: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// chunks cuts a text into pieces of about n bytes at the bounds of characters.
// An empty text gives one empty piece.
func chunks(s string, n int) []string {
	var out []string
	for len(s) > n {
		cut := n
		for cut < len(s) && s[cut]&0xC0 == 0x80 {
			cut++
		}
		out, s = append(out, s[:cut]), s[cut:]
	}
	return append(out, s)
}
