// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// native sends a request in a format to a profile's schemas layer, and returns the body that the
// upstream gets and the header with the omitted members.
func native(t *testing.T, p *Profile, f wire.Format, body string) (sent, dropped string) {
	t.Helper()
	view, err := wire.Parse(f, []byte(body), nil)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
	w := httptest.NewRecorder()
	next := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		b, err := io.ReadAll(r.Body)
		sent = string(b)
		if err != nil || r.ContentLength != int64(len(b)) {
			t.Errorf("a body of %d bytes, announced %d: %v", len(b), r.ContentLength, err)
		}
		return nil
	})
	if err := p.Schemas(next, f, view).ServeHTTP(w, r); err != nil {
		t.Fatal(err)
	}
	return sent, w.Header().Get(headerDropped)
}

func profile(preset string) *Profile {
	return (&Upstream{Preset: preset}).Profile(Options{MaxBody: 1 << 20, Headers: true, Log: zap.NewNop()})
}

// Schemas that an API refuses are rewritten in native requests, and nothing else is.
func TestNativeSchemas(t *testing.T) {
	const (
		variants = `"anyOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"string"}},` +
			`"required":["b"]}]`
		object = `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`
		empty  = `{"type":"object","properties":{}}`
	)
	messages := func(tool string) string {
		return `{ "model":"m", "tools":[ {"name":"ok","input_schema":{"type":"object", "title":null}} , ` + tool +
			` ],"messages":[{"role":"user","content":"hi \u00e9"}] }`
	}
	chat := func(tool string) string {
		return `{"model":"m","messages":[{"role":"user","content":"hi"}], "tools": [{"type":"function","function":` + tool +
			`, "x" : 1}]}`
	}
	google := func(tool string) string {
		return `{"tools":[{"google_search":{}},{"functionDeclarations":[` + tool +
			`]}],"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
	}
	for _, c := range []struct {
		name, preset string
		format       wire.Format
		body, want   string // want "": unchanged
		dropped      string
	}{
		{
			"alternatives at the top", "anthropic", wire.Anthropic,
			messages(`{"name":"f", "input_schema":{"type":"object",` + variants + `},"cache_control":{"type":"ephemeral"}}`),
			messages(`{"name":"f", "input_schema":` + object + `,"cache_control":{"type":"ephemeral"}}`),
			"tools[].input_schema.anyOf",
		},
		{
			"no type", "anthropic", wire.Anthropic,
			messages(`{"name":"f","input_schema":{}}`), messages(`{"name":"f","input_schema":` + empty + `}`), "",
		},
		{
			"null members", "anthropic", wire.Anthropic,
			messages(`{"name":"f","input_schema":{"type":null,"properties":null}}`),
			messages(`{"name":"f","input_schema":` + empty + `}`), "",
		},
		{
			"alternatives below the top, and the provider's own tool", "anthropic", wire.Anthropic,
			messages(`{"type":"bash_20250124","name":"bash"},{"name":"f","input_schema":{"type":"object","properties":{"x":{` +
				variants + `}}}}`), "", "",
		},
		{
			"an answer's bounds", "anthropic", wire.Anthropic,
			`{"model":"m","output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object",` +
				`"properties":{"n":{"type":"integer","minimum":1}},"additionalProperties":false}}},"messages":[{"role":"user","content":"hi"}]}`,
			`{"model":"m","output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object",` +
				`"properties":{"n":{"type":"integer"}},"additionalProperties":false}}},"messages":[{"role":"user","content":"hi"}]}`,
			"output_config.format.schema.minimum",
		},
		{
			"an answer's schema that is taken", "anthropic", wire.Anthropic,
			`{"model":"m","output_config":{"format":{"type":"json_schema", "schema":{ "type":"object","properties":{},` +
				`"additionalProperties": false } }},"messages":[{"role":"user","content":"hi"}]}`, "", "",
		},
		{
			"a type that may be null", "anthropic", wire.Anthropic,
			messages(`{"name":"f","input_schema":{"type":["object","null"],"properties":{"a":{"type":["object","null"]}}}}`),
			messages(`{"name":"f","input_schema":{"type":"object","properties":{"a":{"type":["object","null"]}}}}`), "",
		},
		{
			"a type that is no object's", "anthropic", wire.Anthropic,
			messages(`{"name":"f","input_schema":{"type":["string","null"]}},{"name":"g","input_schema":{"type":"array"}}`), "", "",
		},
		{
			"alternatives at the top at OpenAI", "openai", wire.OpenAIChat,
			chat(`{"name":"f","parameters":{"type":"object",` + variants + `},"strict":false}`),
			chat(`{"name":"f","parameters":` + object + `,"strict":false}`), "tools[].function.parameters.anyOf",
		},
		{
			"values beside the properties at Azure", "azure", wire.OpenAIChat,
			chat(`{"name":"f","parameters":{"type":["object","null"],"properties":{"a":{"const":1}},"const":{"a":1},"not":{}}}`),
			chat(`{"name":"f","parameters":{"type":"object","properties":{"a":{"const":1}}}}`), "",
		},
		{
			"alternatives below the top, and no parameters at OpenAI", "openai", wire.OpenAIChat,
			chat(`{"name":"f","parameters":{"type":"object", "properties":{"x":{` + variants + `}}}}},` +
				`{"type":"function","function":{"name":"g"}},{"type":"custom","custom":{"name":"h"}},` +
				`{"type":"function","function":{"name":"i","parameters":null}`), "", "",
		},
		{
			"alternatives at the top in OpenAI's Responses API", "openai", wire.OpenAIResponses,
			`{"tools":[{"type":"web_search"},{"type":"function","name":"f", "parameters":{` + variants + `}},{"type":"namespace",` +
				`"name":"n","tools":[{"type":"custom","name":"c"},{"type":"function","name":"g","parameters":{"enum":[]}}]}],"input":"hi"}`,
			`{"tools":[{"type":"web_search"},{"type":"function","name":"f", "parameters":` + object + `},{"type":"namespace",` +
				`"name":"n","tools":[{"type":"custom","name":"c"},{"type":"function","name":"g","parameters":` + empty + `}]}],"input":"hi"}`,
			"tools[].parameters.anyOf",
		},
		{"a server of which nothing is known", "groq", wire.OpenAIChat, chat(`{"name":"f","parameters":{}}`), "", ""},
		{
			"no type at DeepSeek", "deepseek", wire.OpenAIChat,
			chat(`{ "name":"f", "parameters":{}, "strict":false}`),
			chat(`{ "name":"f", "parameters":` + empty + `, "strict":false}`), "",
		},
		{"no parameters at DeepSeek", "deepseek", wire.OpenAIChat, chat(`{"name":"f"}`), "", ""},
		{
			"no parameters at xAI", "xai", wire.OpenAIChat,
			chat(`{"name":"f"}`), chat(`{"name":"f","parameters":` + empty + `}`), "",
		},
		{
			"no properties at LM Studio", "lm_studio", wire.OpenAIChat,
			chat(`{"name":"f","strict":null,"parameters":{"type":"object"}}`),
			chat(`{"name":"f","parameters":` + empty + `}`), "",
		},
		{
			"alternatives beside a type at Moonshot", "moonshot", wire.OpenAIChat,
			chat(`{"name":"f","parameters":{"type":"object",` + variants + `}}`),
			chat(`{"name":"f","parameters":` + object + `}`), "tools[].function.parameters.anyOf",
		},
		{
			"deep in a schema at Moonshot", "moonshot", wire.OpenAIChat,
			chat(`{"name":"f","parameters":{"type":"object", "properties":{"n":{"type":"string","anyOf":[{"minLength":1},` +
				`{"type":"null"}]},"l":{"type":"array","items":[{"type":"string"}]}},"required":[]}}`),
			chat(`{"name":"f","parameters":{"type":"object", "properties":{"n":{"anyOf":[{"minLength":1,"type":"string"},` +
				`{"type":"null"}]},"l":{"type":"array","prefixItems":[{"type":"string"}]}},"required":[]}}`), "",
		},
		{
			"JSON schema in the place of Gemini's dialect", "gemini", wire.Gemini,
			google(`{"name":"f", "parameters": {"$schema":"s","type":"OBJECT","properties":{"a":{"const":1}}}, "x":1}`),
			google(`{"name":"f", "parametersJsonSchema":{"$schema":"s","type":"object","properties":{"a":{"const":1}}}, "x":1}`), "",
		},
		{
			"Gemini's dialect", "gemini", wire.Gemini,
			google(`{"name":"f","parameters":{"type":"OBJECT","properties":{"const":{"type":"STRING","any_of":[]}}}},` +
				`{"name":"g"},{"name":"h","parametersJsonSchema":{"$schema":"s"}}`), "", "",
		},
		{
			"an answer's JSON schema at Gemini", "gemini", wire.Gemini,
			`{"generationConfig":{"responseSchema" : {"type":"OBJECT","additionalProperties":false}},"contents":[{"parts":[{"text":"hi"}]}]}`,
			`{"generationConfig":{"responseJsonSchema":{"type":"object","additionalProperties":false}},"contents":[{"parts":[{"text":"hi"}]}]}`, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == "" {
				c.want = c.body
			}
			p := profile(c.preset)
			for turn := range 2 { // the second turn finds what the first one has remembered
				sent, dropped := native(t, p, c.format, c.body)
				if sent != c.want || dropped != c.dropped {
					t.Errorf("turn %d, dropped %q:\n got %s\nwant %s", turn, dropped, sent, c.want)
				}
			}
		})
	}
}

// The prefix of a growing conversation keeps its bytes, with rewritten schemas as well.
func TestNativeSchemasKeepPrefix(t *testing.T) {
	const begin = `{"model":"m","tools":[{"name":"f","input_schema":{"oneOf":[{"properties":{"a":{}}}]}}],"messages":[` +
		`{"role":"user","content":"hi"}`
	p := profile("anthropic")
	first, _ := native(t, p, wire.Anthropic, begin+`]}`)
	second, _ := native(t, p, wire.Anthropic, begin+`,{"role":"assistant","content":"ho"},{"role":"user","content":"ha"}]}`)
	if prefix := strings.TrimSuffix(first, "]}"); !strings.HasPrefix(second, prefix) || strings.Contains(first, "oneOf") {
		t.Errorf("the first turn sent %s, the second %s", first, second)
	}
}

// Without a preset, the host of the last request tells which schemas are refused. Translated requests
// pass: the translation has written their schemas.
func TestNativeSchemasByHost(t *testing.T) {
	const body = `{"model":"m","tools":[{"name":"f","input_schema":{}}],"messages":[{"role":"user","content":"hi"}]}`
	p := (*Upstream)(nil).Profile(Options{MaxBody: 1 << 20, Log: zap.NewNop()})
	if sent, _ := native(t, p, wire.Anthropic, body); sent != body {
		t.Errorf("an unknown host gets %s", sent)
	}
	p.At("api.anthropic.com:443")
	if sent, _ := native(t, p, wire.Anthropic, body); sent == body {
		t.Error("Anthropic's host gets a schema without a type")
	}
	if sent, _ := native(t, profile("deepseek"), wire.OpenAIResponses, `{"model":"m","tools":[{"type":"function",`+
		`"name":"f","parameters":{}}],"input":[{"role":"user","content":"hi"}]}`); !strings.Contains(sent, `"parameters":{}`) {
		t.Errorf("a request that is translated elsewhere became %s", sent)
	}
}

// A list of tools without refused schemas is read once, and costs later turns no allocation.
func TestNativeSchemasAllocations(t *testing.T) {
	body := `{"model":"m","output_config":{"effort":"high"},"tools":[` + strings.Repeat(
		`{"name":"f","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}},`, 50) +
		`{"name":"g","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"hi"}]}`
	view, err := wire.Parse(wire.Anthropic, []byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := profile("anthropic")
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	var handler caddyhttp.Handler = next
	if n := testing.AllocsPerRun(100, func() { handler = p.Schemas(handler, wire.Anthropic, view) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if _, rewrites := handler.(*schemas); rewrites {
		t.Error("a request without refused schemas passes the layer")
	}
}
