// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent sends recorded conversations as the coding agents of the formats do.
package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
)

// Agent builds the bodies that a coding agent would send in one part of a
// conversation. The bytes of a message, once built, are kept: a body is put
// together from them, so that it is byte-stable and cheap.
type Agent interface {
	// Add takes the messages that the next request has in addition.
	Add(messages []recording.Message)
	// Body returns the next request. The caller may keep it.
	Body() []byte
}

// Itemizer is an agent that sends answers back as the items that they came in.
type Itemizer interface {
	// Items are those in which it will send an answer, in order. What it will not send
	// is at the end of the answer, and left out.
	Items(answer *recording.Message) []json.RawMessage
}

// Summarizer is an agent that asks for a summary by a request of its own shape.
type Summarizer interface {
	// Summary returns a request for a summary of all that was said.
	Summary() []byte
}

// tool is what little is known of a tool: its name, and a description that
// stands in for the one that was not recorded.
type tool struct{ name, description string }

// setting is what stands around the messages of all requests of a part.
type setting struct {
	session string
	// system are the recorded blocks of the system prompt; where there are
	// none, filler is the length of a text that stands in for them.
	system []json.RawMessage
	filler int
	tools  []tool
	// first is the first message, on which Claude Code's first line depends.
	first string
}

// toolShare is the part of what was not recorded that goes into the tools:
// about what the tool definitions of Claude Code take of it.
const toolShare = 0.7

// settle describes one part of a conversation.
func settle(c *recording.Conversation, head *recording.Header, first *recording.Call) setting {
	s := setting{session: sessionID(c.Session), system: head.System}
	inTools := 0
	if len(c.Tools) > 0 {
		inTools = int(float64(c.Overhead) * toolShare)
	}
	s.filler = c.Overhead - inTools
	for _, name := range c.Tools {
		s.tools = append(s.tools, tool{name, filler("Tool "+name+".", inTools/len(c.Tools))})
	}
	for _, m := range first.Messages {
		for _, b := range m.Content {
			s.first += b.Text
		}
	}
	return s
}

// filler returns a text of about n characters that begins with s. It stands in
// for instructions that were not recorded.
func filler(s string, n int) string {
	const sentence = " This sentence stands in for instructions of the agent that are not part of the record."
	if missing := n - len(s); missing > 0 {
		s += strings.Repeat(sentence, missing/len(sentence)+1)[:missing]
	}
	return s
}

// sessionID gives every session an id of the form that clients send.
func sessionID(session string) string {
	sum := sha256.Sum256([]byte(session))
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Quote encodes a string as JSON in raw UTF-8, as JavaScript does.
func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Sign gives the thinking blocks that were recorded without a signature the
// one that the simulated model would give them.
func Sign(messages []recording.Message) {
	for i := range messages {
		blocks := messages[i].Content
		for j := range blocks {
			b := &blocks[j]
			if b.Type != "thinking" || b.Signature != "" {
				continue
			}
			b.Signature = simulator.Sign(b.Thinking)
			b.Raw = member(b.Raw, `"signature":`+string(quote(b.Signature)))
		}
	}
}

// Unbind takes the thinking out of answers that a client carries over from
// before a compaction. A model that binds thinking to what stood before it
// refuses it there, so a client of such a model has to.
func Unbind(messages []recording.Message) {
	for i := range messages {
		m := &messages[i]
		rest := slices.DeleteFunc(slices.Clone(m.Content), func(b recording.Block) bool { return b.Type == "thinking" })
		if len(rest) > 0 {
			m.Content = rest
		}
	}
}

// member puts a member at the end of a JSON object that is not empty.
func member(object []byte, m string) []byte {
	out := slices.Grow([]byte(nil), len(object)+len(m)+1)
	out = append(out, object[:len(object)-1]...)
	return append(append(append(out, ','), m...), '}')
}
