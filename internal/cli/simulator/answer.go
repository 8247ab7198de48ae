// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"time"
)

// Answer is the simulated model's answer to one request.
type Answer struct {
	// Blocks are the content, in order.
	Blocks []Block
	// StopReason is the reason for the end, in the API's words. Default: tool_use (OpenAI chat:
	// tool_calls) if there is a call, else end_turn (stop). In the Responses API the default is
	// completed; any other value makes the response incomplete for this reason.
	StopReason string
	// Delay is the time before the first byte of the response.
	Delay time.Duration
	// Truncate, if positive, breaks the connection after that many events of a stream, or in the
	// middle of a response without a stream.
	Truncate int
	// Clean ends a truncated stream without an error, as if it were whole.
	Clean bool
	// Hang sends nothing until the client has left.
	Hang bool
	// Failure, if set, is the error sent instead of the content.
	Failure *Failure
}

// BlockType is the type of a block of an answer.
type BlockType string

// The types of blocks in answers.
const (
	Text     BlockType = "text"
	Thinking BlockType = "thinking"
	ToolUse  BlockType = "tool_use"
)

// Block is one block of an answer.
type Block struct {
	// Type is the type of the block.
	Type BlockType
	// Text is the text or the thinking.
	Text string
	// Signature is the signature of a thinking block in the Messages API, and the encrypted content
	// of the reasoning in the Responses API.
	Signature string
	// ID, Name and Input are a tool call. Input is a JSON object, or a JSON string for a custom
	// tool of the Responses API.
	ID, Name string
	Input    json.RawMessage
	// Item is the block as an item of the Responses API, for clients that send it back unchanged.
	// Default: made of the other fields, with a generated id.
	Item json.RawMessage
}

// Failure is an error of the API.
type Failure struct {
	// Status is the HTTP status. Default: 500.
	Status int
	// Type is the error's type. Default: the API's type for the status.
	Type string
	// Code is the error_code in the details of an error of the Messages API, and the code of an
	// error of OpenAI. Default: none.
	Code string
	// Unsupported lists the members named in the details of an error of the Messages API. Default: none.
	Unsupported []string
	// Param is the parameter named in an error of OpenAI. Default: none.
	Param string
	// Message is the error's text. Default: a text about the simulated failure.
	Message string
}

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

// encode writes v as compact JSON in raw UTF-8, without optional escapes, like the APIs.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		// Only types of this package are encoded, and a script's inputs were validated when it was parsed.
		panic("simulator: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// chunks splits a text into pieces of about n bytes. An empty text yields one empty piece.
func chunks(s string, n int) []string {
	var out []string
	for len(s) > n {
		cut := n
		// A piece ends at the boundary of a character.
		for cut < len(s) && s[cut]&0xC0 == 0x80 {
			cut++
		}
		out, s = append(out, s[:cut]), s[cut:]
	}
	return append(out, s)
}
