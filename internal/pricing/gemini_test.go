// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// contents is a Gemini request with that many steps of a call and its response,
// of about 120 tokens each, after a prompt.
func contents(steps int, members string) string {
	var b strings.Builder
	b.WriteString(`{"contents":[{"role":"user","parts":[{"text":"go"}]}`)
	for i := range steps {
		fmt.Fprintf(&b,
			`,{"role":"model","parts":[{"functionCall":{"id":"c%d","name":"read_file","args":{"file_path":"/x/%d"}},`+
				`"thoughtSignature":"c2ln"}]}`, i, i)
		fmt.Fprintf(&b,
			`,{"role":"user","parts":[{"functionResponse":{"id":"c%d","name":"read_file","response":{"output":"line %d %s"}}}]}`,
			i, i, strings.Repeat("of the file ", 25))
	}
	return b.String() + `]` + members + `}`
}

func gemini(t *testing.T, model, body string) *wire.View {
	t.Helper()
	v := parse(t, wire.Gemini, body)
	v.Address("/v1beta/models/"+model+":generateContent", "")
	return v
}

func TestImplicitCaching(t *testing.T) {
	sim := NewSimulator(SimulatorConfig{})
	at := start
	ask := func(body string) wire.Usage {
		t.Helper()
		v := gemini(t, "gemini-3.1-pro", body)
		run, err := sim.Begin(Call{View: v, Client: v, At: at})
		if err != nil {
			t.Fatal(err)
		}
		run.FirstByte(at)
		return run.Usage()
	}
	tools := `,"tools":[{"functionDeclarations":[{"name":"read_file"}]}]`
	first := ask(contents(60, tools))
	if first.Read != 0 || first.Write5m+first.Write1h != 0 || first.Uncached < 4096 {
		t.Fatalf("first: %+v", first)
	}
	if u := ask(contents(61, tools)); u.Read != first.Uncached {
		t.Errorf("longer: %+v, all %d tokens of the first are shared", u, first.Uncached)
	}
	if u := ask(contents(61, tools+`,"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}`)); u.Uncached != 0 {
		t.Errorf("with another toolConfig: %+v", u)
	}
	if u := ask(strings.Replace(contents(61, tools), "line 50", "Line 50", 1)); u.Read == 0 ||
		u.Read > first.Uncached*51/60 {
		t.Errorf("changed behind the middle: %+v", u)
	}
	if u := ask(strings.Replace(contents(61, tools), "line 3 ", "Line 3 ", 1)); u.Read != 0 {
		t.Errorf("less than the minimum is shared: %+v", u)
	}
	at = at.Add(memoryTTL + time.Second)
	if u := ask(contents(61, tools)); u.Read != 0 {
		t.Errorf("after the lifetime: %+v", u)
	}
}

func TestRefusalsOfGemini(t *testing.T) {
	const (
		signed   = `,"thoughtSignature":"c2ln"}`
		call     = `{"functionCall":{"name":"a","args":{}}`
		prompt   = `{"role":"user","parts":[{"text":"go"}]}`
		response = `{"functionResponse":{"name":"a","response":{"output":"ok"}}}`
		number   = "Please ensure that the number of function response parts is equal to the number of function call " +
			"parts of the function call turn."
		order = "Please ensure that function response turn comes immediately after a function call turn."
	)
	model := func(parts string) string { return `,{"role":"model","parts":[` + parts + `]}` }
	user := func(parts string) string { return `,{"role":"user","parts":[` + parts + `]}` }
	missing := func(position int) string {
		return fmt.Sprintf("Function call is missing a thought_signature in functionCall parts. This is required for "+
			"tools to work correctly. Additional data, function call `default_api:a`, position %d.", position)
	}
	for _, c := range []struct {
		name, contents string
		want           string // "" is accepted
	}{
		{"prompt", prompt, ""},
		{"call and response", prompt + model(call+signed) + user(response), ""},
		{"parallel calls", prompt + model(call+signed+","+call+"}") + user(response+","+response), ""},
		{"role function", prompt + model(call+signed) + `,{"role":"function","parts":[` + response + `]}`, ""},
		{"responses in two contents", prompt + model(call+signed+","+call+"}") + user(response) + user(response), ""},
		{"text behind the responses", prompt + model(call+signed) + user(response+`,{"text":"and?"}`), ""},
		{"ends with a call", prompt + model(call+signed), ""},
		{"a response is missing", prompt + model(call+signed+","+call+"}") + user(response), number},
		{"no response", prompt + model(call+signed) + "," + prompt, number},
		{"a response too many", prompt + model(call+signed) + user(response+","+response), number},
		{"no call", prompt + user(response), order},
		{"no call before", prompt + model(`{"text":"a"}`) + user(response), order},
		{"parallel calls in two contents", prompt + model(call+signed) + model(call+"}") + user(response+","+response), ""},
		{"not signed", prompt + model(call+"}") + user(response), missing(2)},
		{
			"second step not signed", prompt + model(call+signed) + user(response) + model(call+"}") + user(response),
			missing(4),
		},
		{"said to have none", prompt + model(call+`,"thought_signature":"skip_thought_signature_validator"}`) +
			user(response), ""},
		{
			"not signed in a finished turn", prompt + model(call+"}") + user(response) + model(`{"text":"a"}`) + "," + prompt,
			"",
		},
		{
			"no signature at all", prompt + model(call+`,"thoughtSignature":"%"}`) + user(response),
			"Corrupted thought signature.",
		},
	} {
		body := `{"contents":[` + c.contents + `]}`
		for _, name := range []string{"gemini-3.1-pro", "gemini-2.5-flash"} {
			v := gemini(t, name, body)
			want := c.want
			if name == "gemini-2.5-flash" && strings.HasPrefix(want, "Function call is missing") {
				want = "" // not checked there
			}
			_, err := NewSimulator(SimulatorConfig{}).Begin(Call{View: v, Client: v, At: start})
			switch {
			case err == nil && want != "", err != nil && err.Message != want:
				t.Errorf("%s, %s: got %v, want %q", c.name, name, err, want)
			case err != nil && (err.Type != "INVALID_ARGUMENT" || err.Status != 400):
				t.Errorf("%s, %s: %+v", c.name, name, err)
			}
		}
	}
}

// What the provider signed must come back as the client has it.
func TestSignedPartsStay(t *testing.T) {
	client := gemini(t, "gemini-3.1-pro", contents(3, ""))
	for edit, refused := range map[string]bool{
		`"output":"stub"`:      false,
		`"file_path":"/x/two"`: true,
		`Signature":"c2lo"`:    true,
	} {
		body := contents(3, "")
		key, _, _ := strings.Cut(edit, ":")
		at := strings.LastIndex(body, key+":")
		end := at + len(key) + 2 + strings.IndexByte(body[at+len(key)+2:], '"') + 1
		body = body[:at] + edit + body[end:]
		_, err := NewSimulator(SimulatorConfig{}).Begin(Call{
			View: gemini(t, "gemini-3.1-pro", body), Client: client,
			At: start,
		})
		if (err != nil) != refused {
			t.Errorf("%s: %v", edit, err)
		}
	}
}
