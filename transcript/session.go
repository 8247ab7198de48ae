// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package transcript

import (
	"bytes"
	"encoding/json"
)

// Header is the first line of a trace: where it comes from and what it holds.
type Header struct {
	// Agent is the program that held the conversation.
	Agent string `json:"agent"`
	// Model is the model of most calls, empty where not recorded.
	Model string `json:"model"`
	// Session identifies the conversation, of which a trace may be a part.
	Session string `json:"session"`
	// Part and Parts number the traces of one session from 1 on.
	Part  int `json:"part"`
	Parts int `json:"parts"`
	// Offset is the time from the first call of the session to the first call
	// of this part, in seconds.
	Offset float64 `json:"t_offset"`
	// System is the system prompt as content blocks, where it was recorded.
	System []json.RawMessage `json:"system"`
	// Fit says how many tokens the recorded prompts held beyond the messages.
	Fit struct {
		TokensPerChar float64 `json:"tokens_per_char"`
		Overhead      float64 `json:"overhead_tokens"`
	} `json:"prompt_fit"`
}

// Call is one request of a trace.
type Call struct {
	// At is the time from the first call of the trace to the sending of the
	// request, and End to the end of the answer, in seconds; nil where not
	// recorded.
	At  *float64 `json:"t"`
	End *float64 `json:"t_end"`
	// Messages are those that the request before this one did not have: the
	// answer to it first, but for the first call.
	Messages []Message `json:"messages"`
}

// Message is one message of a trace.
type Message struct {
	// Role is user or assistant.
	Role string `json:"role"`
	// Content are the blocks.
	Content []Block `json:"content"`
}

// Block is one block of content. Raw is its JSON as recorded.
type Block struct {
	Raw       json.RawMessage `json:"-"`
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// UnmarshalJSON reads a block and keeps its bytes, without white space.
func (b *Block) UnmarshalJSON(raw []byte) error {
	type plain Block
	if err := json.Unmarshal(raw, (*plain)(b)); err != nil {
		return err
	}
	var compact bytes.Buffer
	compact.Grow(len(raw))
	if err := json.Compact(&compact, raw); err != nil {
		return err
	}
	b.Raw = compact.Bytes()
	return nil
}
