// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent sends recorded conversations like the coding agents of each format.
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

// Agent builds the request bodies of a coding agent in one part of a conversation. It stores the
// bytes of each message once, so bodies are byte-stable and cheap.
type Agent interface {
	// Add appends the messages that are new in the next request.
	Add(messages []recording.Message)
	// Body returns the next request. The caller may retain it.
	Body() []byte
}

// Itemizer is an agent that sends answers back as the items that they came in.
type Itemizer interface {
	// Items returns the items in which the agent sends an answer back, in order. Trailing blocks
	// that it does not send back are left out.
	Items(answer *recording.Message) []json.RawMessage
}

// Summarizer is an agent with a special request for summaries.
type Summarizer interface {
	// Summary returns a request for a summary of the whole conversation.
	Summary() []byte
}

type tool struct{ name, description string }

// setting has the parts of a request around its messages.
type setting struct {
	session string
	// system are the recorded blocks of the system prompt. Without them filler is the length of a
	// filler text.
	system []json.RawMessage
	filler int
	tools  []tool
	// first is the text of the first message. Claude Code's first line depends on it.
	first string
}

// toolShare is the share of tool definitions in the unrecorded part, about as with Claude Code.
const toolShare = 0.7

func newSetting(c *recording.Conversation, head *recording.Header, first *recording.Call) setting {
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

// filler returns a text of about n characters that begins with s.
func filler(s string, n int) string {
	const sentence = " This sentence stands in for instructions of the agent that are not part of the record."
	if missing := n - len(s); missing > 0 {
		s += strings.Repeat(sentence, missing/len(sentence)+1)[:missing]
	}
	return s
}

func sessionID(session string) string {
	sum := sha256.Sum256([]byte(session))
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Sign adds the simulated model's signature to thinking blocks without a signature.
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

// Unbind removes the thinking from answers that a client carries over from before a compaction.
// Models that bind thinking to its context refuse such thinking, so their clients remove it, too.
func Unbind(messages []recording.Message) {
	for i := range messages {
		m := &messages[i]
		rest := slices.DeleteFunc(slices.Clone(m.Content), func(b recording.Block) bool { return b.Type == "thinking" })
		if len(rest) > 0 {
			m.Content = rest
		}
	}
}

func member(object []byte, m string) []byte {
	out := slices.Grow([]byte(nil), len(object)+len(m)+1)
	out = append(out, object[:len(object)-1]...)
	return append(append(append(out, ','), m...), '}')
}
