// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

func TestObjectSchema(t *testing.T) {
	const a, b = `{"type":"object","properties":{"content":{"type":"string"},"id":{"type":"string"}},"required":["id",` +
		`"content"]}`,
		`{"properties":{"source_url":{"type":"string"},"id":{"type":"integer"}},"required":["source_url","id"]}`
	for _, c := range []struct{ name, schema, want string }{
		{"none", ``, `{"type":"object","properties":{}}`},
		{"null", `null`, `{"type":"object","properties":{}}`},
		{"empty", `{}`, `{"type":"object","properties":{}}`},
		{
			"as it should be", `{"type":"object", "properties":{ },"$schema":"s"}`,
			`{"type":"object", "properties":{ },"$schema":"s"}`,
		},
		{"without properties", `{"type":"object"}`, `{"type":"object","properties":{}}`},
		{"without a type", `{"properties":{}}`, `{"type":"object","properties":{}}`},
		{
			"null members", `{"type":"object","properties":null,"required":null,"title":null}`,
			`{"type":"object","properties":{}}`,
		},
		{
			"or nothing", `{"type":["object","null"],"properties":{"a":{}},"required":["a"]}`,
			`{"type":"object","properties":{"a":{}},"required":["a"]}`,
		},
		{
			"alternatives", `{"type":"object","description":"d","anyOf":[` + a + `,` + b + `],"additionalProperties":false}`,
			`{"type":"object","properties":{"content":{"type":"string"},"id":{"anyOf":[{"type":"string"},` +
				`{"type":"integer"}]},"source_url":{"type":"string"}},"required":["id"],"description":"d",` +
				`"additionalProperties":false}`,
		},
		{
			"all of them", `{"allOf":[` + a + `,{"properties":{"more":{}},"required":["more"]}]}`,
			`{"type":"object","properties":{"content":{"type":"string"},"id":{"type":"string"},"more":{}},` +
				`"required":["content","id","more"]}`,
		},
		{
			"references",
			`{"oneOf":[{"$ref":"#/$defs/a~1b"},{"$ref":"#/$defs/none"}],"$defs":{"a/b":{"properties":{"x":{}},` +
				`"required":["x"]}}}`,
			`{"type":"object","properties":{"x":{}},"$defs":{"a/b":{"properties":{"x":{}},"required":["x"]}}}`,
		},
		{"a reference to itself", `{"$ref":"#"}`, `{"type":"object","properties":{}}`},
		{
			"in a circle",
			`{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"properties":{"x":{}},"allOf":[{"$ref":"#/$defs/a"}]}}}`,
			`{"type":"object","properties":{"x":{}},"$defs":{"a":{"properties":{"x":{}},"allOf":[{"$ref":"#/$defs/a"}]}}}`,
		},
		{"no object at all", `{"type":"string","enum":["a"]}`, `{"type":"object","properties":{}}`},
	} {
		if got := string(translate.ObjectSchema(rawjson.Value(c.schema))); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}
