// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// A request with a schema gets a text in that schema.
func TestInShape(t *testing.T) {
	const schema = `{"type":"OBJECT","properties":{"why":{"type":"STRING"},"model":{"type":"string","enum":["flash",` +
		`"pro"]},"score":{"type":"integer","minimum":5},"more":{"type":["array","null"]},"sure":{"type":"boolean"},` +
		`"in":{"type":"object","properties":{"none":{"type":"null"}}}}}`
	const want = `{"why":"simulated","model":"flash","score":5,"more":[],"sure":false,"in":{"none":null}}`
	for name, c := range map[string]struct {
		format wire.Format
		body   string
		want   string
	}{
		"gemini": {
			wire.Gemini,
			`{"contents":[{"role":"user","parts":[{"text":"a"}]}],"generationConfig":{"responseMimeType":"application/json",` +
				`"responseJsonSchema":` + schema + `}}`, want,
		},
		"responses": {
			wire.OpenAIResponses,
			`{"model":"m","input":"a","text":{"format":{"type":"json_schema","name":"n","schema":` + schema + `}}}`, want,
		},
		"messages": {
			wire.Anthropic,
			`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"a"}],` +
				`"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}}`, want,
		},
		"interactions": {
			wire.Interactions,
			`{"model":"m","input":"a","response_format":[{"type":"audio"},{"type":"text","mime_type":"application/json",` +
				`"schema":` + schema + `}]}`, want,
		},
		"no schema": {wire.OpenAIResponses, `{"model":"m","input":"a","text":{"verbosity":"low"}}`, ""},
		"nothing":   {wire.Anthropic, `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"a"}]}`, ""},
	} {
		v, err := wire.Parse(c.format, []byte(c.body), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := inShape(v); got != c.want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
