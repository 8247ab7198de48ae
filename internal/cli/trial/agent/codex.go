// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
)

// codex sends Responses requests like Codex: everything append-only, with all reasoning sent back.
// Each item has an id that differs between parts, and the metadata at the end of the body changes
// its order.
type codex struct {
	head, tail []byte
	// bare is the tail without tools.
	bare    []byte
	session string
	// items are all items, separated by commas.
	items []byte
	part  string // prefix of ids
	ids   int
	sent  int
}

func newCodex(s setting, model string) *codex {
	sum := sha256.Sum256([]byte(s.first))
	c := &codex{session: s.session, part: hex.EncodeToString(sum[:4])}
	instructions := quote(filler("You are a coding agent. You help with software engineering tasks.", s.filler))
	if len(s.system) > 0 {
		instructions = joined(s.system)
	}
	c.head = append([]byte(`{"model":`+string(quote(model))+`,"stream":true,"instructions":`), instructions...)
	c.head = append(c.head, `,"input":[`...)
	tail := []byte(`]`)
	for i, t := range s.tools {
		if i == 0 {
			tail = append(tail, `,"tools":[`...)
		} else {
			tail = append(tail, ',')
		}
		tail = append(append(tail, `{"type":"function","name":`...), quote(t.name)...)
		tail = append(append(tail, `,"description":`...), quote(t.description)...)
		tail = append(tail, `,"strict":false,"parameters":{"type":"object"}}`...)
	}
	if len(s.tools) > 0 {
		tail = append(tail, `],"tool_choice":"auto","parallel_tool_calls":true`...)
	}
	rest := append([]byte(`,"reasoning":{"effort":"medium"},"store":false,"include":["reasoning.encrypted_content"],`+
		`"prompt_cache_key":`), quote(s.session)...)
	rest = append(rest, `,"client_metadata":`...)
	c.tail = append(tail, rest...)
	c.bare = append([]byte(`],"tools":[],"tool_choice":"auto","parallel_tool_calls":false`), rest...)
	return c
}

func (c *codex) Add(messages []recording.Message) {
	for i := range messages {
		if m := &messages[i]; m.Role == "assistant" {
			c.assistant(m)
		} else {
			c.user(m)
		}
	}
}

func (c *codex) begin(kind, prefix string) {
	if len(c.items) > 0 {
		c.items = append(c.items, ',')
	}
	c.ids++
	c.items = append(c.items, `{"type":"`+kind+`","id":"`+prefix+`_`+c.part+strconv.Itoa(c.ids)+`"`...)
}

// Items implements [Itemizer].
func (c *codex) Items(answer *recording.Message) (all []json.RawMessage) {
	next := codex{part: c.part, ids: c.ids}
	next.assistant(answer)
	for _, item := range gjson.Parse("[" + string(next.items) + "]").Array() {
		all = append(all, json.RawMessage(item.Raw))
	}
	return all
}

func (c *codex) assistant(m *recording.Message) {
	last := 0
	for i := range m.Content {
		if m.Content[i].Type != "thinking" {
			last = i
		}
	}
	// The API requires an item after reasoning.
	for i := range m.Content[:min(last+1, len(m.Content))] {
		switch b := &m.Content[i]; b.Type {
		case "text":
			c.begin("message", "msg")
			c.items = append(c.items, `,"role":"assistant","content":[{"type":"output_text","text":`...)
			c.items = append(append(c.items, gjson.GetBytes(b.Raw, "text").Raw...), `}]}`...)
		case "thinking":
			c.begin("reasoning", "rs")
			c.items = append(c.items, `,"summary":[{"type":"summary_text","text":`...)
			c.items = append(append(c.items, gjson.GetBytes(b.Raw, "thinking").Raw...),
				`}],"content":null,"encrypted_content":`...)
			c.items = append(append(c.items, quote(b.Signature)...), '}')
		case "tool_use":
			c.begin("function_call", "fc")
			c.items = append(append(c.items, `,"name":`...), quote(b.Name)...)
			c.items = append(append(c.items, `,"arguments":`...), quote(string(b.Input))...)
			c.items = append(append(c.items, `,"call_id":`...), quote(b.ID)...)
			c.items = append(c.items, '}')
		}
	}
}

func (c *codex) user(m *recording.Message) {
	var parts []json.RawMessage
	for i := range m.Content {
		b := &m.Content[i]
		if b.Type != "tool_result" {
			parts = append(parts, b.Raw)
			continue
		}
		c.begin("function_call_output", "fco")
		c.items = append(append(c.items, `,"call_id":`...), quote(b.ToolUseID)...)
		c.items = append(c.items, `,"output":`...)
		switch {
		case len(b.Content) == 0:
			c.items = append(c.items, `""`...)
		case b.Content[0] == '[':
			var inner []json.RawMessage
			gjson.ParseBytes(b.Content).ForEach(func(_, v gjson.Result) bool {
				inner = append(inner, json.RawMessage(v.Raw))
				return true
			})
			c.parts(inner)
		default:
			c.items = append(c.items, b.Content...)
		}
		c.items = append(c.items, '}')
	}
	if len(parts) == 0 {
		return
	}
	c.begin("message", "msg")
	c.items = append(c.items, `,"role":"user","content":`...)
	c.parts(parts)
	c.items = append(c.items, '}')
}

func (c *codex) parts(blocks []json.RawMessage) {
	for i, block := range blocks {
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		c.items = append(c.items, sep)
		b := gjson.ParseBytes(block)
		if b.Get("type").String() != "image" {
			c.items = append(append(append(c.items, `{"type":"input_text","text":`...), b.Get("text").Raw...), '}')
			continue
		}
		source := b.Get("source")
		url := quote("data:" + source.Get("media_type").String() + ";base64," + source.Get("data").String())
		c.items = append(append(append(c.items, `{"type":"input_image","image_url":`...), url...), '}')
	}
	if len(blocks) == 0 {
		c.items = append(c.items, '[')
	}
	c.items = append(c.items, ']')
}

func (c *codex) Body() []byte { return c.body(c.items, c.tail) }

const summons = `{"type":"message","id":"msg_compact","role":"user","content":[{"type":"input_text","text":"You are ` +
	`performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM that will resume the task."}]}`

// Summary implements [Summarizer].
func (c *codex) Summary() []byte {
	items := append(append(slices.Clip(c.items), ','), summons...)
	return c.body(items, c.bare)
}

func (c *codex) body(items, tail []byte) []byte {
	c.sent++
	metadata := []string{`"session_id":` + string(quote(c.session)), `"turn_id":"` + strconv.Itoa(c.sent) + `"`}
	first, second := c.sent%2, (c.sent+1)%2
	b := make([]byte, 0, len(c.head)+len(items)+len(tail)+128)
	b = append(append(append(b, c.head...), items...), tail...)
	return append(b, `{`+metadata[first]+`,`+metadata[second]+`}}`...)
}
