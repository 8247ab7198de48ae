// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// deepestSchema bounds how deep a schema is followed.
const deepestSchema = 8

// inShape returns a text of the JSON schema that a request wants its answer in,
// "" if it wants none. Clients that ask a model to decide something try again and
// again when the answer cannot be read.
func inShape(v *wire.View) string {
	if v.Reply.OutputConfig.Empty() {
		return ""
	}
	schema := spoken[v.Format].schema(gjson.ParseBytes(v.Bytes(v.Reply.OutputConfig)))
	if !schema.IsObject() {
		return ""
	}
	return string(appendShaped(nil, schema, 0))
}

// formatSchema is the schema of a format that names it in a member of that name.
func formatSchema(output gjson.Result) gjson.Result {
	if output.Get("format.type").Str != "json_schema" {
		return gjson.Result{}
	}
	return output.Get("format.schema")
}

// appendShaped appends the plainest value of a schema.
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
