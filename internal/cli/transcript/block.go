// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

func quoted(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func textBlock(s string) Block {
	return Block{Type: "text", Text: s, Raw: join(`{"type":"text","text":`, quoted(s), `}`)}
}

func text(s string) []Block {
	// APIs refuse blank blocks.
	if blank(s) {
		return nil
	}
	return []Block{textBlock(s)}
}

func thinkingBlock(s, signature string) []Block {
	if s == "" && signature == "" {
		return nil
	}
	b := Block{Type: "thinking", Thinking: s, Signature: signature}
	if signature == "" {
		b.Raw = join(`{"type":"thinking","thinking":`, quoted(s), `}`)
	} else {
		b.Raw = join(`{"type":"thinking","thinking":`, quoted(s), `,"signature":`, quoted(signature), `}`)
	}
	return []Block{b}
}

// callBlock returns a tool call. input is JSON; values other than objects are wrapped in one.
func callBlock(id, name, input string) Block {
	if !rawjson.Valid(input) || !gjson.Parse(input).IsObject() {
		input = string(join(`{"input":`, quoted(input), `}`))
	}
	b := Block{Type: "tool_use", ID: id, Name: name, Input: json.RawMessage(input)}
	b.Raw = join(`{"type":"tool_use","id":`, quoted(id), `,"name":`, quoted(name), `,"input":`, b.Input, `}`)
	return b
}

// resultBlock returns a tool result. content is JSON: a string or a list of blocks.
func resultBlock(call string, content json.RawMessage, failed bool) Block {
	b := Block{Type: "tool_result", ToolUseID: call, Content: content}
	end := json.RawMessage(`}`)
	if failed {
		end = json.RawMessage(`,"is_error":true}`)
	}
	b.Raw = join(`{"type":"tool_result","tool_use_id":`, quoted(call), `,"content":`, content, string(end))
	return b
}

// image replaces all images: they are large, and their contents are irrelevant here.
var image = json.RawMessage(`{"type":"image","source":{"type":"base64","media_type":"image/png",` +
	`"data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}}`)

func imageBlock() Block { return Block{Type: "image", Raw: image} }

func join(parts ...any) json.RawMessage {
	var out []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			out = append(out, p...)
		case json.RawMessage:
			out = append(out, p...)
		}
	}
	return out
}

// content returns the content of a tool result: a string, or a list of blocks.
func content(c gjson.Result) json.RawMessage {
	switch {
	case c.Type == gjson.String:
		return quoted(c.String())
	case !c.IsArray():
		return quoted(c.Raw)
	}
	out := []byte{'['}
	c.ForEach(func(_, block gjson.Result) bool {
		if len(out) > 1 {
			out = append(out, ',')
		}
		switch kind := block.Get("type").String(); {
		case kind == "text" || kind == "input_text" || kind == "output_text":
			out = append(out, textBlock(block.Get("text").String()).Raw...)
		case kind == "image" || kind == "input_image":
			out = append(out, image...)
		default:
			// Kind and size stand for all other blocks.
			out = append(out, textBlock("("+kind+": "+strconv.Itoa(len(block.Raw))+" characters)").Raw...)
		}
		return true
	})
	if len(out) == 1 {
		return quoted("")
	}
	return append(out, ']')
}
