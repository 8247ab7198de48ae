// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openai

import (
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
		v := root.Get("input")
		if v.Type != gjson.String && root.IsObject() {
			// Models also write the text as the only member, under a name from their training.
			members := 0
			root.ForEach(func(_, m gjson.Result) bool {
				v = m
				members++
				return members == 1
			})
			if members != 1 {
				v = gjson.Result{}
			}
		}
		// Some models write a plain string.
		if root.Type == gjson.String {
			v = root
		}
		if v.Type == gjson.String {
			return rawjson.AppendLine(dst, v.Raw)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, inside...)
	return append(dst, '"')
}
