// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package conversation makes long conversations in the form of agents and chats. They are
// deterministic, so that runs are comparable.
//
// A conversation grows by a turn per request: the assistant's message, which is the response to the
// previous request, and the client's reply. In the Claude shape the last block has a cache marker
// that moves with every request, and the messages precede the system prompt and the tools, as in
// Claude Code's bodies.
package conversation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
)

// Shape is a kind of conversation.
type Shape string

// The shapes.
const (
	// Claude is Anthropic Messages as Claude Code sends them: tool calls,
	// thinking, three cache markers.
	Claude Shape = "claude"
	// Chat is OpenAI chat completions with tool calls, as opencode sends them.
	Chat Shape = "chat"
)

// Path returns the endpoint of the shape.
func (s Shape) Path() string {
	if s == Chat {
		return "/v1/chat/completions"
	}
	return "/v1/messages"
}

// Model returns the model of the shape.
func (s Shape) Model() string {
	if s == Chat {
		return "gpt-5.4"
	}
	return "claude-opus-4-6"
}

// Size holds the approximate lengths of a conversation's parts, in bytes.
type Size struct {
	// System and Tools are the lengths of the system prompt and of all tool definitions.
	System, Tools int
	// Result is the mean length of a tool result.
	Result int
	// Thinking reports whether the assistant's messages contain thinking.
	Thinking bool
	// Prose reports whether results are paragraphs instead of code.
	Prose bool
}

// The sizes in use: a chat of a few lines, and an agent's session.
var (
	Small = Size{System: 300, Tools: 200, Result: 20}
	Agent = Size{System: 8 << 10, Tools: 34 << 10, Result: 3 << 10, Thinking: true}
)

// reader is the tool that reads files, as Claude Code names it.
const reader = "Read"

// Tape holds the turns of all conversations of one shape and size. These differ in their first
// message only.
type Tape struct {
	shape Shape
	size  Size
	turns []turn
	// flat holds the turns as they are resent, concatenated. head with the first message precedes
	// it, and one of the tails follows.
	flat, head, streamed, whole []byte
}

type turn struct {
	// start and user are the offsets of the turn and of the client's part in flat.
	start, user int
	// marked is the client's part with its marker, as the last message.
	marked []byte
	// answer is the assistant's message at the beginning of the turn.
	answer answer
}

type answer struct {
	thinking, signature, text string
	id, tool, input           string
}

// NewTape makes the turns of conversations of up to that many bytes.
func NewTape(shape Shape, size Size, upTo int) *Tape {
	t := &Tape{shape: shape, size: size}
	text := &author{rand.New(rand.NewPCG(1, uint64(len(shape))))} //nolint:gosec // must repeat
	t.frame(text)
	for len(t.flat)+len(t.head)+len(t.streamed) < upTo {
		t.add(text)
	}
	t.add(text) // the answer to the last request
	return t
}

func (t *Tape) frame(text *author) {
	system, tools := quote(text.prose(t.size.System)), t.tools(text)
	tail := `],"system":[{"type":"text","text":"You are an agent that works on a repository.",` +
		`"cache_control":{"type":"ephemeral"}},` +
		`{"type":"text","text":` + system + `,"cache_control":{"type":"ephemeral"}}],"tools":` + tools +
		`,"max_tokens":32000,"stream":`
	t.head = fmt.Appendf(nil, `{"model":%q,"messages":[`, t.shape.Model())
	if t.shape == Chat {
		tail = `],"tools":` + tools + `,"tool_choice":"auto","stream_options":{"include_usage":true},"stream":`
		t.head = append(t.head, `{"role":"system","content":`+system+`},`...)
	}
	t.streamed, t.whole = []byte(tail+"true}"), []byte(tail+"false}")
}

func (t *Tape) tools(text *author) string {
	const each = 2 << 10
	var tools []string
	for i := range max(1, t.size.Tools/each) {
		name, about := fmt.Sprintf("tool_%d", i), quote(text.prose(min(t.size.Tools, each)-150))
		if i == 0 {
			name = reader
		}
		schema := `{"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"]}`
		if t.shape == Chat {
			tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":%q,"description":%s,"parameters":%s}}`,
				name, about, schema))
			continue
		}
		tools = append(tools, fmt.Sprintf(`{"name":%q,"description":%s,"input_schema":%s}`, name, about, schema))
	}
	return "[" + strings.Join(tools, ",") + "]"
}

func (t *Tape) add(text *author) {
	n := len(t.turns)
	a := answer{id: fmt.Sprintf("toolu_%08d", n), tool: reader, text: text.prose(60)}
	a.input = fmt.Sprintf(`{"file_path":"src/%s/file_%d.go"}`, text.word(), text.IntN(1+n/2))
	if t.size.Thinking && n%2 == 0 {
		a.thinking, a.signature = text.prose(240), text.signature(400)
	}
	// A few results are long and most are short: a third of the mean, or twice the mean.
	length := t.size.Result / 3
	if text.IntN(10) < 4 {
		length = t.size.Result * 2
	}
	said := text.code
	if t.size.Prose {
		said = text.prose
	}
	result := quote(said(length))

	u := turn{start: len(t.flat), answer: a}
	t.flat = append(t.flat, ',')
	t.flat = append(t.flat, t.assistant(a)...)
	u.user = len(t.flat)
	plain, end, marker := `,{"role":"user","content":[{"tool_use_id":"`+a.id+`","type":"tool_result","content":`+result,
		`}]}`, `,"cache_control":{"type":"ephemeral"}`
	if t.shape == Chat {
		plain, end, marker = `,{"role":"tool","tool_call_id":"`+a.id+`","content":`+result, `}`, ""
	}
	u.marked = []byte(plain + marker + end)
	t.flat = append(t.flat, plain+end...)
	t.turns = append(t.turns, u)
}

func (t *Tape) assistant(a answer) []byte {
	if t.shape == Chat {
		return fmt.Appendf(nil,
			`{"role":"assistant","content":%s,"tool_calls":[{"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}]}`,
			quote(a.text), a.id, a.tool, quote(a.input))
	}
	b := []byte(`{"role":"assistant","content":[`)
	if a.thinking != "" {
		b = fmt.Appendf(b, `{"type":"thinking","thinking":%s,"signature":%q},`, quote(a.thinking), a.signature)
	}
	return fmt.Appendf(b, `{"type":"text","text":%s},{"type":"tool_use","id":%q,"name":%q,"input":%s}]}`, quote(a.text),
		a.id, a.tool, a.input)
}

// Turns returns the number of available turns.
func (t *Tape) Turns() int { return len(t.turns) - 1 }

// TurnsOf returns the number of turns after which a body has that many bytes.
func (t *Tape) TurnsOf(bytes int) int {
	frame := len(t.head) + len(t.streamed)
	for i, u := range t.turns {
		if frame+u.start >= bytes {
			return min(i, t.Turns())
		}
	}
	return t.Turns()
}

// Body returns the body of the request after that many turns of the named conversation, and its
// length. The caller must not change the pieces.
func (t *Tape) Body(name string, turns int, stream bool) (pieces net.Buffers, length int) {
	first := fmt.Appendf(nil, `%s{"role":"user","content":"Conversation %s: find out why the build fails and mend it."}`,
		t.head, name)
	pieces = append(pieces, first)
	if turns > 0 {
		u := t.turns[turns-1]
		pieces = append(pieces, t.flat[:u.user], u.marked)
	}
	if stream {
		pieces = append(pieces, t.streamed)
	} else {
		pieces = append(pieces, t.whole)
	}
	for _, p := range pieces {
		length += len(p)
	}
	return pieces, length
}

// quote returns s as a JSON string in JavaScript's form.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // strings always encode
	}
	return strings.TrimSuffix(b.String(), "\n")
}
