// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// TestCompatByView: a parsed view saves searching the body, and does not change the result.
func TestCompatByView(t *testing.T) {
	message := `{"role":"assistant",%s"content":"ok"%s}`
	var bodies []string
	for _, thinking := range []string{
		"", `"reasoning":"hm",`, `"reasoning_content":"hm",`,
		`"reasoning":"hm","reasoning_content":"hm",`,
	} {
		for _, marker := range []string{"", `,"cache_control":{"type":"ephemeral"}`} {
			for _, top := range []string{
				"", `,"max_tokens":5`, `,"stream":true,"stream_options":{"x":1}`,
				`,"stream_options":{"include_usage":true},"store":true`,
			} {
				bodies = append(bodies,
					`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"say \"reasoning\""`+marker+`}]},`+
						fmt.Sprintf(message, thinking, marker)+`]`+top+`}`)
			}
		}
	}
	changed := 0
	for name := range presets {
		u := &Upstream{Preset: name}
		d := u.compat()
		if d == nil {
			continue
		}
		for _, format := range []wire.Format{wire.OpenAIChat, wire.Anthropic} {
			for _, body := range bodies {
				v, err := wire.Parse(format, []byte(body), nil)
				if err != nil {
					t.Fatal(err)
				}
				none := func(string) []byte { return nil }
				without, with := d.apply(format, []byte(body), nil, none).Bytes(), d.apply(format, v.Raw, v, none).Bytes()
				if string(with) != string(without) {
					t.Errorf("%s, %s: %s became %s, and by its view %s", name, format, body, without, with)
				}
				more := append([]byte(body[:len(body)-1]), `,"stream_options":{"include_usage":true}}`...)
				without = d.apply(format, more, nil, none).Bytes()
				with = d.apply(format, more, v.Extended(more), none).Bytes()
				if string(with) != string(without) {
					t.Errorf("%s, %s: %s became %s, and by its extended view %s", name, format, more, without, with)
				}
				if string(with) != body {
					changed++
				}
			}
		}
	}
	if changed == 0 {
		t.Error("nothing had to be changed")
	}
}

// A null or absent content becomes an empty text: servers render null as the word None, or fail.
func TestContentNull(t *testing.T) {
	const calls = `"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"content\":null}"}}]`
	for message, want := range map[string]string{
		`{"role":"assistant","content":null,` + calls + `}`:       `{"role":"assistant","content":"",` + calls + `}`,
		`{"role":"assistant",` + calls + `, "content" : null }`:   `{"role":"assistant",` + calls + `, "content" : "" }`,
		`{"role":"assistant","content":"null",` + calls + `}`:     `{"role":"assistant","content":"null",` + calls + `}`,
		`{"role":"assistant",` + calls + `}`:                      `{"role":"assistant",` + calls + `,"content":""}`,
		`{"role":"assistant","content":"a",` + calls + `}`:        `{"role":"assistant","content":"a",` + calls + `}`,
		`{"role":"assistant","content":null}`:                     `{"role":"assistant","content":""}`,
		`{"role":"user","content":null}`:                          `{"role":"user","content":""}`,
		`{"role":"system","content":null}`:                        `{"role":"system","content":""}`,
		`{"content":null,"role":"developer"}`:                     `{"content":"","role":"system"}`,
		`{"role":"tool","tool_call_id":"b","content":null}`:       `{"role":"tool","tool_call_id":"b","content":""}`,
		`{"role":"user","content":[{"type":"text","text":null}]}`: `{"role":"user","content":[{"type":"text","text":""}]}`,
		`{"content":null,"role":"function","name":"f"}`:           `{"content":"","role":"function","name":"f"}`,
		`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}`: `{"role":"assistant",` +
			`"content":"","function_call":{"name":"f","arguments":"{}"}}`,
	} {
		body := `{"model":"m","messages":[{"role":"user","content":"hi"},` + message +
			`,{"role":"tool","tool_call_id":"c","content":"x"}]`
		for _, preset := range []string{"lm_studio", "llama_cpp", "ollama"} {
			out := (&Upstream{Preset: preset}).compat().apply(wire.OpenAIChat, []byte(body+"}"), nil,
				func(string) []byte { return nil }).Bytes()
			if got := gjson.GetBytes(out, "messages.1").Raw; got != want {
				t.Errorf("%s: %s became %s, want %s", preset, message, got, want)
			}
		}
	}
}

// Calls without arguments have those of an empty object: servers that parse them for the template fail otherwise.
func TestBlankArguments(t *testing.T) {
	for arguments, want := range map[string]string{
		`""`: `"{}"`, `null`: `"{}"`, `" \n"`: `"{}"`, `"{}"`: `"{}"`, `{}`: `{}`, `"{"`: `"{"`, `"nil"`: `"nil"`,
	} {
		body := `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[` +
			`{"id":"c","type":"function","function":{"name":"f","arguments":` + arguments + `}}]},` +
			`{"role":"tool","tool_call_id":"c","content":"x"}]}`
		out := (&Upstream{Preset: "vllm"}).compat().apply(wire.OpenAIChat, []byte(body), nil, none).Bytes()
		if got := gjson.GetBytes(out, "messages.1.tool_calls.0.function.arguments").Raw; got != want {
			t.Errorf("%s became %s, want %s", arguments, got, want)
		}
	}
}

// The role developer, unknown to chat templates, becomes system for a local server only.
func TestDeveloperMessages(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"developer","content":"Be kind."},{"content":"Say \"developer\".",` +
		`"role":"user"},{"content":"Hurry.","role": "developer"}]}`
	const want = `{"model":"m","messages":[{"role":"system","content":"Be kind."},{"content":"Say \"developer\".",` +
		`"role":"user"},{"content":"Hurry.","role": "system"}]}`
	out := (&Upstream{Preset: "ollama"}).compat().apply(wire.OpenAIChat, []byte(body), nil,
		func(string) []byte { return nil }).Bytes()
	if string(out) != want {
		t.Errorf("got %s, want %s", out, want)
	}
	if d := (&Upstream{}).compat(); d != nil {
		t.Errorf("an upstream of which nothing is said has %+v", d)
	}
}

// The client's own template arguments are kept, and its request not to think reaches the template.
func TestTemplateArguments(t *testing.T) {
	const messages = `"messages":[{"role":"user","content":"hi"}]`
	for body, want := range map[string]string{
		`{"model":"m",` + messages + `}`: `{"preserve_thinking":true}`,
		`{"model":"m","chat_template_kwargs":{"enable_thinking":false},` + messages +
			`}`: `{"preserve_thinking":true,"enable_thinking":false}`,
		`{"model":"m","chat_template_kwargs":{"preserve_thinking":false},` + messages +
			`}`: `{"preserve_thinking":false}`,
		`{"model":"m","chat_template_kwargs":{"a\"b":1},` + messages + `}`: `{"preserve_thinking":true,"a\"b":1}`,
		`{"model":"m","chat_template_kwargs":null,` + messages + `}`:       `{"preserve_thinking":true}`,
		`{"model":"m","chat_template_kwargs":"{}",` + messages + `}`:       `"{}"`, // the server refuses it
		`{"model":"m","reasoning_effort":"none",` + messages +
			`}`: `{"preserve_thinking":true,"enable_thinking":false,"thinking":false}`,
		`{"model":"m","reasoning_effort":"none","chat_template_kwargs":{"enable_thinking":true},` + messages +
			`}`: `{"preserve_thinking":true,"enable_thinking":true,"thinking":false}`,
	} {
		for _, preset := range []string{
			"llama_cpp", "mlx_lm", "vllm_mlx", "mlx_openai_server", "omlx", "rapid_mlx", "vllm",
			"sglang",
		} {
			out := (&Upstream{Preset: preset}).compat().apply(wire.OpenAIChat, []byte(body), nil,
				func(string) []byte { return nil }).Bytes()
			got := gjson.GetBytes(out, "chat_template_kwargs").Raw
			if got != want || gjson.GetBytes(out, "reasoning_effort").Exists() {
				t.Errorf("%s: %s became %s, want chat_template_kwargs %s", preset, body, out, want)
			}
		}
	}
	stated := &Upstream{
		Preset: "llama_cpp",
		Body:   map[string]json.RawMessage{"chat_template_kwargs": json.RawMessage(`{"enable_thinking":true}`)},
	}
	out := stated.compat().apply(wire.OpenAIChat, []byte(`{"model":"m","chat_template_kwargs":{"enable_thinking":false},`+
		messages+`}`), nil, func(string) []byte { return nil }).Bytes()
	if got := gjson.GetBytes(out, "chat_template_kwargs").Raw; got != `{"enable_thinking":true}` {
		t.Errorf("what the operator states: got %s", got)
	}
}

// TestThinkingOff: a chat client's wish not to think, in the words of any API, reaches a server in the server's own words.
func TestThinkingOff(t *testing.T) {
	const head = `{"model":"m","messages":[{"role":"user","content":"hi"}]`
	for preset, want := range map[string]string{
		"llama_cpp": `,"chat_template_kwargs":{"preserve_thinking":true,"enable_thinking":false,"thinking":false}}`,
		"ollama":    `,"reasoning_effort":"none"}`,
		"lm_studio": `,"reasoning_effort":"none"}`,
		"deepseek":  `,"thinking":{"type":"disabled"}}`,
	} {
		for _, wish := range []string{
			`"reasoning_effort":"none"`, `"thinking":{"type":"disabled"}`, `"enable_thinking":false`, `"reasoning":{"enabled":false}`,
			`"reasoning":{"effort":"none"}`, `"think":false`,
		} {
			body := head + "," + wish + "}"
			out := (&Upstream{Preset: preset}).compat().apply(wire.OpenAIChat, []byte(body), nil, none).Bytes()
			if string(out) != head+want {
				t.Errorf("%s: %s became %s, want %s", preset, body, out, head+want)
			}
		}
		for _, other := range []string{`"thinking":{"type":"enabled"}`, `"reasoning_effort":"low"`, `"think":true`} {
			body := head + "," + other + "}"
			out := (&Upstream{Preset: preset}).compat().apply(wire.OpenAIChat, []byte(body), nil, none).Bytes()
			if !bytes.HasPrefix(out, []byte(head+","+other)) || bytes.Contains(out, []byte("false")) {
				t.Errorf("%s: %s became %s, want its wish kept", preset, body, out)
			}
		}
	}
}

func none(string) []byte { return nil }

// A request that the translation has written becomes the same with fewer searches.
func TestCompatOfTranslated(t *testing.T) {
	const body = `{"model":"m","max_tokens":9,"thinking":{"type":"adaptive"},"system":[{"type":"text","text":"null",` +
		`"cache_control":{"type":"ephemeral"}}],"tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":` +
		`{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"\"reasoning\" \"cache_control\"",` +
		`"cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"hm",` +
		`"signature":"s"},{"type":"tool_use","id":"a","name":"f","input":{"x":null}}]},{"role":"user","content":[` +
		`{"type":"tool_result","tool_use_id":"a","content":"null"}]},{"role":"system","content":"developer"},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"b","name":"f","input":{}}]},{"role":"user","content":[` +
		`{"type":"tool_result","tool_use_id":"b","content":"","cache_control":{"type":"ephemeral"}}]}]}`
	changed := 0
	for name := range presets {
		for _, u := range []*Upstream{
			{Preset: name, Format: wire.OpenAIChat},
			{Preset: name, Format: wire.OpenAIChat, CacheControl: new(true)},
			{Preset: name, Format: wire.OpenAIChat, CacheControl: new(false), SystemMessages: translate.InPlace},
			{Preset: name, Format: wire.OpenAIChat, Reasoning: reasoningAlias},
			{Preset: name, Format: wire.OpenAIChat, Reasoning: reasoningNone},
		} {
			p := u.Profile(Options{})
			if p.compat == nil {
				continue
			}
			r := httptest.NewRequest(http.MethodPost, "/v1/messages", nil)
			httpx.SetBody(r, []byte(body))
			out, err := (&translation{p: p, from: wire.Anthropic, to: wire.OpenAIChat}).convert(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			none := func(string) []byte { return nil }
			want := string(p.compat.apply(wire.OpenAIChat, out.Body.Bytes(), nil, none).Bytes())
			if got := string(p.translatedCompat.apply(wire.OpenAIChat, out.Body.Bytes(), nil, none).Bytes()); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
			if want != string(out.Body.Bytes()) {
				changed++
			}
		}
	}
	if changed == 0 {
		t.Error("nothing had to be changed")
	}
}
