// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
	"github.com/tidwall/gjson"
)

// What is known of a request spares searching it, and changes nothing of what becomes of it.
func TestCompatByView(t *testing.T) {
	message := `{"role":"assistant",%s"content":"ok"%s}`
	var bodies []string
	for _, thinking := range []string{"", `"reasoning":"hm",`, `"reasoning_content":"hm",`, `"reasoning":"hm","reasoning_content":"hm",`} {
		for _, marker := range []string{"", `,"cache_control":{"type":"ephemeral"}`} {
			for _, top := range []string{"", `,"max_tokens":5`, `,"stream":true,"stream_options":{"x":1}`, `,"stream_options":{"include_usage":true},"store":true`} {
				bodies = append(bodies, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"say \"reasoning\""`+marker+`}]},`+fmt.Sprintf(message, thinking, marker)+`]`+top+`}`)
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
				without, with := d.apply(format, []byte(body), nil, none), d.apply(format, v.Raw, v, none)
				if string(with) != string(without) {
					t.Errorf("%s, %s: %s became %s, and by its view %s", name, format, body, without, with)
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

// A message of calls has an empty text: boxes write the word None for a null, or fail.
func TestContentNull(t *testing.T) {
	const calls = `"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"content\":null}"}}]`
	for message, want := range map[string]string{
		`{"role":"assistant","content":null,` + calls + `}`:     `{"role":"assistant","content":"",` + calls + `}`,
		`{"role":"assistant",` + calls + `, "content" : null }`: `{"role":"assistant",` + calls + `, "content" : "" }`,
		`{"role":"assistant","content":"null",` + calls + `}`:   `{"role":"assistant","content":"null",` + calls + `}`,
		`{"role":"assistant",` + calls + `}`:                    `{"role":"assistant",` + calls + `}`,
	} {
		body := `{"model":"m","messages":[{"role":"user","content":"hi"},` + message + `,{"role":"tool","tool_call_id":"c","content":"x"}]`
		for _, preset := range []string{"lm_studio", "llama_cpp", "ollama"} {
			out := (&Upstream{Preset: preset}).compat().apply(wire.OpenAIChat, []byte(body+"}"), nil, func(string) []byte { return nil })
			if got := gjson.GetBytes(out, "messages.1").Raw; got != want {
				t.Errorf("%s: %s became %s, want %s", preset, message, got, want)
			}
		}
	}
}
