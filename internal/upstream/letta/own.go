// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package letta

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
)

// withoutOwnCalls removes an agent's calls of its own tools, and their results, from responses.
func withoutOwnCalls(next caddyhttp.Handler) caddyhttp.Handler {
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		a := without{at: map[int]int{}}
		// A client would take them for calls to execute.
		return httpx.NewEditor(w, a.event, func(body []byte) []byte { return fewer(body, "output") }).Serve(next, r)
	})
}

type without struct {
	at    map[int]int // an item's index for the client, by its original index; -1 for a removed item
	shown int
}

var its = map[string]bool{"function_call": true, "function_call_output": true}

func (a *without) event(out []byte, e framing.Event) []byte {
	if len(e.Data) == 0 {
		return append(out, e.Raw...)
	}
	data := gjson.ParseBytes(e.Data)
	if index := data.Get("output_index"); index.Exists() {
		old := int(index.Int())
		at, ok := a.at[old]
		if !ok {
			if at = -1; !its[data.Get("item.type").Str] {
				at = a.shown
				a.shown++
			}
			a.at[old] = at
		}
		if at < 0 {
			return out
		}
		// An unchanged index keeps the original bytes.
		if at == old {
			return append(out, e.Raw...)
		}
		patched, err := wire.Patch(e.Data, wire.Member{Name: "output_index", Value: strconv.AppendInt(nil, int64(at), 10)})
		if err != nil {
			return append(out, e.Raw...)
		}
		return framing.SSE{}.Append(out, string(e.Name), patched)
	}
	if few := fewer(e.Data, "response.output"); len(few) != len(e.Data) {
		return framing.SSE{}.Append(out, string(e.Name), few)
	}
	return append(out, e.Raw...)
}

func fewer(object []byte, path string) []byte {
	list := gjson.GetBytes(object, path)
	if !list.IsArray() || list.Index == 0 {
		return object
	}
	var kept bytes.Buffer
	kept.WriteByte('[')
	left := false
	list.ForEach(func(_, item gjson.Result) bool {
		if its[item.Get("type").Str] {
			left = true
			return true
		}
		if kept.Len() > 1 {
			kept.WriteByte(',')
		}
		kept.WriteString(item.Raw)
		return true
	})
	if !left {
		return object
	}
	kept.WriteByte(']')
	out := make([]byte, 0, len(object))
	out = append(append(out, object[:list.Index]...), kept.Bytes()...)
	return append(out, object[list.Index+len(list.Raw):]...)
}
