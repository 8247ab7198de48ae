// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"bytes"
	"encoding/json"
	"io"
	"time"
)

// Session is one conversation from an agent's files.
type Session struct {
	// Agent is the program of the conversation, Path its file.
	Agent, Path string
	// ID is the agent's id of the conversation. For a sub-agent it follows the parent's id and a slash.
	ID string
	// Project is the project folder, empty if it is not recorded.
	Project string
	// Model is the model of most calls, empty if it is not recorded.
	Model string
	// Started is the time of the first request.
	Started time.Time
	// Parts are the stretches of append-only history. A compaction or a rewind by the user starts
	// another one.
	Parts []*Part
	// Unknown counts the invalid lines and the lines of an unknown kind.
	Unknown int
}

// Calls returns the number of requests.
func (s *Session) Calls() int {
	n := 0
	for _, p := range s.Parts {
		n += len(p.Calls)
	}
	return n
}

// LongCaches reports whether more tokens were written to one-hour caches than to five-minute
// caches, as recorded.
func (s *Session) LongCaches() bool {
	var short, long int64
	for _, p := range s.Parts {
		for _, c := range p.Calls {
			if c.Usage != nil {
				short, long = short+c.Usage.CacheCreation.Short, long+c.Usage.CacheCreation.Long
			}
		}
	}
	return long > short
}

// Part is a stretch of a conversation.
type Part struct {
	// Header is the header of its recording.
	Header Header
	// Calls are its requests.
	Calls []*Call

	started time.Time
}

// Trace returns the part as a trace.
func (p *Part) Trace(name string) *Trace {
	return &Trace{Header: p.Header, path: name, line: 1, calls: p.Calls}
}

// Write writes the part as a recording.
func (p *Part) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(&p.Header); err != nil {
		return err
	}
	for _, c := range p.Calls {
		if err := e.Encode(c); err != nil {
			return err
		}
	}
	return nil
}

// Usage is the recorded bill of a call.
type Usage struct {
	// Input is the prompt's tokens neither read from nor written to a cache.
	Input int64 `json:"input_tokens"`
	// Output is the tokens of the answer.
	Output int64 `json:"output_tokens"`
	// Read and Write are the prompt's tokens read from a cache and written to one.
	Read int64 `json:"cache_read_input_tokens"`
	// Write: see Read.
	Write int64 `json:"cache_creation_input_tokens"`
	// CacheCreation is the written tokens by lifetime, if that is recorded.
	CacheCreation struct {
		Short int64 `json:"ephemeral_5m_input_tokens"`
		Long  int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation,omitzero"`
}

func (u *Usage) prompt() int64 { return u.Input + u.Read + u.Write }

// Header is the first line of a trace: its origin and contents.
type Header struct {
	// Repo is the repository, as owner/name.
	Repo string `json:"repo"`
	// Agent is the program of the conversation.
	Agent string `json:"agent"`
	// Model is the model of most calls, empty if it is not recorded.
	Model string `json:"model"`
	// Session identifies the conversation. A trace may be a part of it.
	Session string `json:"session"`
	// Part and Parts number the traces of one session from 1 on.
	Part  int `json:"part"`
	Parts int `json:"parts"`
	// Offset is the time from the first call of the session to the first call
	// of this part, in seconds.
	Offset float64 `json:"t_offset"`
	// System is the recorded system prompt as content blocks, if any.
	System []json.RawMessage `json:"system,omitempty"`
	// Fit is the estimate of the tokens that recorded prompts had beyond the messages.
	Fit struct {
		TokensPerChar float64 `json:"tokens_per_char"`
		Overhead      float64 `json:"overhead_tokens"`
	} `json:"prompt_fit"`
}

// Call is one request of a trace.
type Call struct {
	// At is the time from the first call of the trace to this request, End the time to the end of
	// the response, in seconds. Both are nil if they are not recorded.
	At  *float64 `json:"t"`
	End *float64 `json:"t_end"`
	// Messages are the messages since the previous request. Except in the first call they begin
	// with the answer to it.
	Messages []Message `json:"messages"`
	// Usage is the recorded bill, nil for none.
	Usage *Usage `json:"usage,omitempty"`
}

// Message is one message of a trace.
type Message struct {
	// Role is user or assistant.
	Role string `json:"role"`
	// Content are the blocks.
	Content []Block `json:"content"`
}

// Block is one block of content. Raw is its recorded JSON.
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

// MarshalJSON writes the recorded JSON.
func (b Block) MarshalJSON() ([]byte, error) { return b.Raw, nil }

// UnmarshalJSON reads a block and stores its JSON without white space.
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
