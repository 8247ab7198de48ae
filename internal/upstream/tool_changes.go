// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// ToolChanges returns next with texts in the place of the blocks by which messages add tools and
// remove them. Local servers that speak the Messages API refuse a whole request for such a block
// (omlx issue 3754). Translated requests have none of them by now.
func (p *Profile) ToolChanges(next caddyhttp.Handler, client wire.Format) caddyhttp.Handler {
	if client != wire.Anthropic || !p.Local() || p.Stateful() {
		return next
	}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		body, err := httpx.Outgoing(r, p.MaxBody)
		if err != nil || !bytes.Contains(body, []byte(`"tool_addition"`)) && !bytes.Contains(body, []byte(`"tool_removal"`)) {
			return next.ServeHTTP(w, r)
		}
		out := body
		httpx.Guard(p.Log, "telling of tools that come and go", func() { out = withoutToolChanges(body) })
		defer httpx.SwapBody(r, body, out)()
		return next.ServeHTTP(w, r)
	})
}

// withoutToolChanges returns the body with a text for each of the blocks. These servers ignore
// defer_loading, so that a deferred tool is in the prompt already; one that comes with its
// definition is appended to the tools. A tool that goes stays in the prompt, whose prefix would
// change, and the text says that it is gone.
func withoutToolChanges(body []byte) []byte {
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
				text = "From here on there is no tool " + name + " any more."
			default:
				return true
			}
			with := rawjson.AppendQuoted([]byte(`{"type":"text","text":`), text)
			cuts = append(cuts, wire.Cut{Start: int32(block.Index), End: int32(block.Index + len(block.Raw)), With: append(with, '}')})
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
