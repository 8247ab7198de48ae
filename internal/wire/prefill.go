// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/tidwall/gjson"

// PrefillMessage is the user message after a prompt sent only for prefill.
const PrefillMessage = `{"role":"user","content":"."}`

// PrefillMessages returns the leading system messages, followed by [PrefillMessage].
func PrefillMessages(messages gjson.Result) []byte {
	out := []byte{'['}
	messages.ForEach(func(_, m gjson.Result) bool {
		if role := m.Get("role").Str; role != "system" && role != "developer" {
			return false
		}
		out = append(append(out, m.Raw...), ',')
		return true
	})
	return append(append(out, PrefillMessage...), ']')
}
