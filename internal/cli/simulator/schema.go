// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

const deepestSchema = 8

// inShape returns a text in the JSON schema that a request demands, "" without a schema.
func inShape(v *wire.View) string {
	// Clients that ask a model for a decision retry endlessly if its answer does not match the schema.
	if v.Reply.OutputConfig.Empty() {
		return ""
	}
	schema := spoken[v.Format].schema(gjson.ParseBytes(v.Bytes(v.Reply.OutputConfig)))
	if !schema.IsObject() {
		return ""
	}
	return string(appendShaped(nil, schema, 0))
}

func formatSchema(output gjson.Result) gjson.Result {
	if output.Get("format.type").Str != "json_schema" {
		return gjson.Result{}
	}
	return output.Get("format.schema")
}

func appendShaped(dst []byte, schema gjson.Result, depth int) []byte {
	if first := schema.Get("enum.0"); first.Exists() {
		return append(dst, first.Raw...)
	}
	kind := schema.Get("type")
	if kind.IsArray() {
		kind = kind.Get("0")
	}
	switch strings.ToLower(kind.Str) {
	case "object":
		dst = append(dst, '{')
		n := 0
		schema.Get("properties").ForEach(func(name, property gjson.Result) bool {
			if depth == deepestSchema {
				return false
			}
			if n++; n > 1 {
				dst = append(dst, ',')
			}
			dst = append(append(dst, name.Raw...), ':')
			dst = appendShaped(dst, property, depth+1)
			return true
		})
		return append(dst, '}')
	case "array":
		return append(dst, "[]"...)
	case "integer", "number":
		return strconv.AppendInt(dst, max(1, schema.Get("minimum").Int()), 10)
	case "boolean":
		return append(dst, "false"...)
	case "null":
		return append(dst, "null"...)
	}
	return append(dst, `"simulated"`...)
}
