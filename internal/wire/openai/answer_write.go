// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// InputDetails are the members of a usage with the prompt tokens read from and written to a cache.
var InputDetails = []wire.UsageMember{
	{Name: "cached_tokens", Count: wire.CountRead},
	{Name: "cache_write_tokens", Count: wire.CountWrite},
	{Name: "cache_creation_tokens", Count: wire.CountWrite, Alias: true},
	{Name: "cache_creation_input_tokens", Count: wire.CountWrite, Alias: true}, // Model Studio
	// The long lifetime is one hour at translated upstreams and 12 hours at OpenAI. The one-hour
	// member is an addition of this module.
	{Name: "cache_write_1h_tokens", Count: wire.CountLongWrite, Sparse: true},
	{
		Name: "cache_write_tokens_details", Alias: true,
		In: []wire.UsageMember{{Name: "ttl_12h_tokens", Count: wire.CountLongWrite}},
	},
}

// AppendCustomInput writes the text input of a custom tool. The upstream got the tool as a function
// with one member "input". Arguments in any other form are written unchanged.
func AppendCustomInput(dst []byte, inside string) []byte {
	if text := rawjson.Plain(inside); rawjson.Valid(text) {
		root := gjson.Parse(text)
		input := root.Get("input")
		if input.Type != gjson.String {
			input = freeText(root)
		}
		// Some models wrap a patch twice.
		if strings.HasPrefix(input.Str, "{") {
			if inner := freeText(gjson.Parse(input.Str)); isPatch(inner) {
				input = inner
			}
		}
		if input.Type == gjson.String {
			return rawjson.AppendLine(dst, input.Raw)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, inside...)
	return append(dst, '"')
}

// freeText returns the string that holds the text of a custom tool. Models write the text as their
// training has it: as a plain string, as the only member of an object, or behind the name of a
// command: {"command":["apply_patch","*** Begin Patch…"]}.
func freeText(v gjson.Result) gjson.Result {
	switch {
	case v.IsArray():
		if list := v.Array(); len(list) == 2 && list[0].Str == "apply_patch" {
			return list[1]
		}
		return gjson.Result{}
	case v.IsObject():
		members, text, patch := 0, gjson.Result{}, gjson.Result{}
		v.ForEach(func(_, m gjson.Result) bool {
			if inner := freeText(m); m.IsArray() || isPatch(inner) {
				m = inner
			}
			if members++; members == 1 {
				text = m
			} else {
				text = gjson.Result{}
			}
			if isPatch(m) {
				patch = m
			}
			return true
		})
		// A patch needs no other member, such as the working directory.
		if patch.Exists() {
			return patch
		}
		return text
	}
	return v
}

func isPatch(v gjson.Result) bool { return strings.HasPrefix(v.Str, "*** Begin Patch") }
