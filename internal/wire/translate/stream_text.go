// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// AppendArguments appends a call's arguments as a JSON object on one line. Models sometimes write
// invalid JSON. It becomes the one member "arguments" of an object, so that the tool reports the
// error.
func AppendArguments(dst []byte, inside string) []byte {
	text := rawjson.Plain(inside)
	if text == "" {
		return append(dst, "{}"...)
	}
	if !rawjson.ValidObject(text) {
		dst = append(dst, `{"arguments":"`...)
		dst = append(dst, inside...)
		return append(dst, `"}`...)
	}
	return rawjson.AppendLine(dst, text)
}
