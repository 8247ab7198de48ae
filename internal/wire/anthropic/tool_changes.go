// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// ToolChangesAsText implements [wire.ToolChanger] for servers that ignore defer_loading: their prompt
// already contains the deferred tools. An added tool with a definition is appended to the tools.
func (Codec) ToolChangesAsText(body []byte) []byte {
	if !bytes.Contains(body, []byte(`"tool_addition"`)) && !bytes.Contains(body, []byte(`"tool_removal"`)) {
		return body
	}
	root := gjson.ParseBytes(body)
	tools := root.Get("tools")
	var cuts []wire.Cut
	var added []byte
	root.Get("messages").ForEach(func(_, message gjson.Result) bool {
		content := message.Get("content")
		if !content.IsArray() {
			return true
		}
		content.ForEach(func(_, block gjson.Result) bool {
			var text string
			tool := block.Get("tool")
			name := tool.Get("name").Str
			switch block.Get("type").Str {
			case "tool_addition":
				if d := tool.Get("definition"); d.IsObject() {
					name = d.Get("name").Str
					added = append(append(added, ','), d.Raw...)
				}
				text = "From here on there is a tool " + name + "."
			case "tool_removal":
				// The definition stays in the prompt, to keep the prefix.
				text = "From here on there is no tool " + name + " any more."
			default:
				return true
			}
			with := rawjson.AppendQuoted([]byte(`{"type":"text","text":`), text)
			cuts = append(cuts, wire.Cut{
				Start: int32(block.Index), End: int32(block.Index + len(block.Raw)),
				With: append(with, '}'),
			})
			return true
		})
		return true
	})
	if len(added) > 0 && tools.IsArray() && len(tools.Array()) > 0 {
		end := int32(tools.Index + len(tools.Raw) - 1)
		cuts = append(cuts, wire.Cut{Start: end, End: end, With: added})
		added = nil
	}
	out, err := wire.Replace(body, cuts)
	if err == nil && len(added) > 0 {
		out, err = wire.Patch(out, wire.Member{Name: "tools", Value: rawjson.Array(added[1:])})
	}
	if err != nil {
		return body
	}
	return out
}
