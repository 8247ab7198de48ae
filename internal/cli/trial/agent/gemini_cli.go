// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
)

// geminiCLI sends requests like Gemini CLI: contents first, then the system prompt and the tools.
type geminiCLI struct {
	contents, tail []byte
	// names maps call ids to tools: a result names its tool.
	names map[string]string
}

func newGeminiCLI(s setting) *geminiCLI {
	c := &geminiCLI{names: map[string]string{}}
	c.contents = append(c.contents, `{"contents":[{"role":"user","parts":[{"text":`...)
	c.contents = append(c.contents, quote("<session_context>\nThis is the environment of session "+s.session+
		".\n</session_context>")...)
	c.contents = append(c.contents, `}]}`...)
	system := quote(filler("You are a coding agent. You help with software engineering tasks.", s.filler))
	if len(s.system) > 0 {
		system = joined(s.system)
	}
	c.tail = append(append([]byte(`],"systemInstruction":{"role":"user","parts":[{"text":`), system...), `}]}`...)
	for i, t := range s.tools {
		if i == 0 {
			c.tail = append(c.tail, `,"tools":[{"functionDeclarations":[`...)
		} else {
			c.tail = append(c.tail, ',')
		}
		c.tail = append(append(c.tail, `{"name":`...), quote(t.name)...)
		c.tail = append(append(c.tail, `,"description":`...), quote(t.description)...)
		c.tail = append(c.tail, `,"parametersJsonSchema":{"type":"object"}}`...)
	}
	if len(s.tools) > 0 {
		c.tail = append(c.tail, `]}]`...)
	}
	c.tail = append(c.tail,
		`,"generationConfig":{"temperature":1,"topP":0.95,"topK":64,"thinkingConfig":{"includeThoughts":true}}}`...)
	return c
}

func (c *geminiCLI) Add(messages []recording.Message) {
	for i := range messages {
		m := &messages[i]
		role := "user"
		if m.Role == "assistant" {
			role = "model"
		}
		if parts := c.parts(m); len(parts) > 0 {
			c.contents = append(append(append(c.contents, `,{"role":"`...), role...), `","parts":[`...)
			c.contents = append(append(c.contents, parts...), `]}`...)
		}
	}
}

// parts returns the parts of a message, separated by commas.
func (c *geminiCLI) parts(m *recording.Message) []byte {
	var results, rest []byte
	signed := false
	for i := range m.Content {
		switch b := &m.Content[i]; b.Type {
		case "text":
			rest = appendPart(rest, `{"text":`, gjson.GetBytes(b.Raw, "text").Raw, `}`)
		case "image":
			rest = append(comma(rest), inline(gjson.ParseBytes(b.Raw))...)
		case "tool_use":
			c.names[b.ID] = b.Name
			rest = appendPart(rest, `{"functionCall":{"id":`, string(quote(b.ID)), `,"name":`, string(quote(b.Name)), `,"args":`,
				string(b.Input), `}`)
			// Thinking comes back only as the signature of the first call of an answer.
			if !signed {
				signed = true
				rest = append(append(rest, `,"thoughtSignature":`...), quote(simulator.Sign(b.Name+" "+string(b.Input)))...)
			}
			rest = append(rest, '}')
		case "tool_result":
			text, images := c.result(b)
			results = appendPart(results, `{"functionResponse":{"id":`, string(quote(b.ToolUseID)), `,"name":`,
				string(quote(c.names[b.ToolUseID])), `,"response":{`, text, `}}}`)
			for _, image := range images {
				rest = append(comma(rest), image...)
			}
		}
	}
	// The API requires results first.
	if len(results) > 0 && len(rest) > 0 {
		results = append(results, ',')
	}
	return append(results, rest...)
}

func (c *geminiCLI) result(b *recording.Block) (text string, images [][]byte) {
	// Results are in {"output": …}, or in {"error": …} after a failure; images follow as separate parts.
	name := `"output":`
	if gjson.GetBytes(b.Raw, "is_error").Bool() {
		name = `"error":`
	}
	switch {
	case len(b.Content) == 0:
		return name + `""`, nil
	case b.Content[0] != '[':
		return name + string(b.Content), nil
	}
	var texts []json.RawMessage
	gjson.ParseBytes(b.Content).ForEach(func(_, v gjson.Result) bool {
		if v.Get("type").Str == "image" {
			images = append(images, inline(v))
		} else {
			texts = append(texts, json.RawMessage(v.Raw))
		}
		return true
	})
	return name + string(joined(texts)), images
}

func inline(image gjson.Result) []byte {
	source := image.Get("source")
	return appendPart(nil, `{"inlineData":{"mimeType":`, source.Get("media_type").Raw, `,"data":`, source.Get("data").Raw,
		`}}`)
}

func comma(parts []byte) []byte {
	if len(parts) > 0 {
		return append(parts, ',')
	}
	return parts
}

func appendPart(parts []byte, pieces ...string) []byte {
	parts = comma(parts)
	for _, p := range pieces {
		parts = append(parts, p...)
	}
	return parts
}

func (c *geminiCLI) Body() []byte {
	b := make([]byte, 0, len(c.contents)+len(c.tail))
	return append(append(b, c.contents...), c.tail...)
}
