// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"bytes"
	"encoding/json"
	"io"
	"time"
)

// Session is one conversation as an agent left it on disk.
type Session struct {
	// Agent is the program that held it, Path the file that it stands in.
	Agent, Path string
	// ID is the agent's own name for it. A sub-agent's has that of its parent in
	// front, and a slash.
	ID string
	// Project is the folder that it was about, empty where not recorded.
	Project string
	// Model is the model of most calls, empty where not recorded.
	Model string
	// Started is when the first request was sent.
	Started time.Time
	// Parts are the stretches that go on from what stands before. A new one begins
	// where the agent summed the conversation up, or the user went back in it.
	Parts []*Part
	// Unknown counts the lines that were no JSON or of a kind that is not known.
	Unknown int
}

// Calls is the number of requests.
func (s *Session) Calls() int {
	n := 0
	for _, p := range s.Parts {
		n += len(p.Calls)
	}
	return n
}

// LongCaches reports whether more was written to caches of an hour than to those
// of five minutes, as far as recorded.
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
	// Header is what its recording begins with.
	Header Header
	// Calls are its requests.
	Calls []*Call

	started time.Time
}

// Trace reads the part as if it were a recording.
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

// Usage is what the provider billed for a call, as it was recorded.
type Usage struct {
	// Input are the prompt's tokens that were neither read from a cache nor
	// written to one.
	Input int64 `json:"input_tokens"`
	// Output are the answer's.
	Output int64 `json:"output_tokens"`
	// Read and Write are the prompt's tokens that were read from a cache and
	// written to one.
	Read int64 `json:"cache_read_input_tokens"`
	// Write: see Read.
	Write int64 `json:"cache_creation_input_tokens"`
	// CacheCreation are those written, by lifetime, where that is recorded.
	CacheCreation struct {
		Short int64 `json:"ephemeral_5m_input_tokens"`
		Long  int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation,omitzero"`
}

func (u *Usage) prompt() int64 { return u.Input + u.Read + u.Write }

// Header is the first line of a trace: where it comes from and what it holds.
type Header struct {
	// Repo is the repository that was worked on, as owner/name.
	Repo string `json:"repo"`
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
	System []json.RawMessage `json:"system,omitempty"`
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
	// Usage is what was billed, where recorded.
	Usage *Usage `json:"usage,omitempty"`
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

// MarshalJSON writes a block as it was recorded.
func (b Block) MarshalJSON() ([]byte, error) { return b.Raw, nil }

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
