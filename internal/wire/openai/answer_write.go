// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// InputDetails are the members that tell what of a prompt was read from and written to a
// cache. The long lifetime is OpenAI's 12 hours, or the hour of an upstream that was
// translated, which has a member of this module's.
var InputDetails = []wire.UsageMember{
	{Name: "cached_tokens", Count: wire.CountRead},
	{Name: "cache_write_tokens", Count: wire.CountWrite},
	{Name: "cache_creation_tokens", Count: wire.CountWrite, Alias: true},
	{Name: "cache_write_1h_tokens", Count: wire.CountLongWrite, Sparse: true},
	{Name: "cache_write_tokens_details", Alias: true, In: []wire.UsageMember{{Name: "ttl_12h_tokens", Count: wire.CountLongWrite}}},
}

// AppendCustomInput writes the text that a custom tool takes, which went
// through the upstream as the member "input" of an object. Models also write it as the only
// member, under the name that they have learnt, or as a string; what is neither is passed on
// as it is.
func AppendCustomInput(dst []byte, inside string) []byte {
	if text := rawjson.Plain(inside); rawjson.Valid(text) {
		root := gjson.Parse(text)
		v := root.Get("input")
		if v.Type != gjson.String && root.IsObject() {
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
