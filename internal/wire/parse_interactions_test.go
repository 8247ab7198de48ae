// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
)

// stepsBody is a conversation with its whole history in the request.
const stepsBody = `{"model":"gemini-3.1-pro","store":false,"stream":true,"system_instruction":"rules","tools":[{"type":"function","name":"read_file","parameters":{}},{"type":"google_search"}],"input":[
{"type":"user_input","content":[{"type":"text","text":"go"},{"type":"image","data":"AA==","mime_type":"image/png"},{"type":"audio","uri":"u"}]},
{"type":"thought","signature":"c2ln","summary":[{"type":"text","text":"hm"}]},
{"type":"function_call","id":"c1","name":"read_file","arguments":{"path":"a"}},
{"type":"function_call","id":"c2","name":"read_file","arguments":{"path":"b"}},
{"type":"function_result","call_id":"c1","name":"read_file","result":"text of a"},
{"type":"function_result","call_id":"c2","is_error":true,"result":[{"type":"text","text":"b"},{"type":"image","uri":"u"}]},
{"type":"google_search_call","id":"s","arguments":{"queries":["q"]},"signature":"c2ln"},
{"type":"google_search_result","call_id":"s","result":[]},
{"type":"model_output","content":[{"type":"text","text":"done"}]},
{"type":"user_input","content":"more"}
],"generation_config":{"max_output_tokens":77,"thinking_level":"low","tool_choice":{"allowed_tools":{"mode":"auto","tools":["read_file"]}}},"response_format":{"type":"text"}}`

func TestParseInteractions(t *testing.T) {
	v := mustParse(t, wire.Interactions, stepsBody)
	want := `0/0/tool_def||read_file||
0/0/tool_def||google_search||
1/1/text|||"rules"||00010
2/2/text|||"go"|
2/2/image||||
2/2/other||||
2/3/reasoning|||||1000000
2/3/tool_use|c1|read_file|{"path":"a"}||1000000
2/3/tool_use|c2|read_file|{"path":"b"}|
2/4/tool_result|c1|read_file|"text of a"|
2/4/tool_result|c2||[{"type":"text","text":"b"},{"type":"image","uri":"u"}]||01001
2/3/server_tool|||||1000000
2/3/server_tool||||
2/3/text|||"done"|
2/2/text|||"more"||00010
`
	if got := outline(v); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if v.Model != "gemini-3.1-pro" || !v.Reply.Stream || !v.Conversation.Stateless || v.Conversation.Partial ||
		v.Reply.MaxTokens != 77 || v.Text(v.Reply.Thinking) != `"low"` || v.Reply.OutputConfig.Empty() ||
		v.Reply.ToolChoice.Empty() {
		t.Errorf("settings: %+v", v)
	}
	if len(v.Messages) != 5 || !hidden.Possible(v) {
		t.Errorf("%d messages", len(v.Messages))
	}
}

func TestDetectInteractions(t *testing.T) {
	for path, want := range map[string]bool{
		"/v1beta/interactions": true, "/gemini/v1beta/interactions": true,
		"/v1beta1/projects/p/locations/l/interactions": true,
		"/v1beta/interactions/v1_a":                    false, "/v1beta/interactions/v1_a/cancel": false,
		"/v1beta/myinteractions": false,
	} {
		if f, ok := wire.Detect(http.MethodPost, path); ok != want || ok && f != wire.Interactions {
			t.Errorf("%s: %q, %t", path, f, ok)
		}
	}
	if _, ok := wire.Detect(http.MethodGet, "/v1beta/interactions"); ok {
		t.Error("a list is none")
	}
}

// An input has several forms. Inputs of equal meaning have equal hashes.
func TestParseInteractionsInputs(t *testing.T) {
	for _, c := range []struct {
		input, want string
		hides       bool
	}{
		{`"hi"`, `2/2/text|||"hi"||00010`, false},
		{`{"type":"text","text":"hi"}`, `2/2/text|||"hi"|`, false},
		{`[{"type":"text","text":"hi"},{"type":"document","uri":"u"}]`, "2/2/text|||\"hi\"|\n2/2/document||||", false},
		{`[{"type":"user_input","content":[{"type":"text","text":"hi"}]}]`, `2/2/text|||"hi"|`, true},
		{`[{"type":"user_input","content":"hi"}]`, `2/2/text|||"hi"||00010`, true},
		{`[{"type":"user_input"}]`, ``, true},
		{`[{"type":"user_input","content":7}]`, `2/2/other||||`, false},
		{
			`[{"type":"model_output","content":[{"type":"text","text":"a"},{"type":"video"}]}]`,
			"2/3/text|||\"a\"||10000000\n2/3/other|||||10000000", true,
		},
		{`[{"type":"function_result","call_id":"c","result":""}]`, `2/4/tool_result|c||""||10000`, true},
		{`[{"type":"function_result","call_id":"c","result":{"a":1}}]`, `2/4/tool_result|c||{"a":1}|`, true},
		{`[{"type":"function_result","call_id":"c","result":[1]}]`, `2/4/tool_result|c|||`, true},
		{`[{"type":"function_call","id":"c","name":"f","arguments":"x"}]`, `2/3/tool_use|c|f||`, true},
		{`[{"type":"novelty","x":1}]`, `2/3/other||||`, true},
		{`[{"role":"user","content":"hi"}]`, `2/3/other||||`, true},
		{`[{"type":"user_input","type":"thought"}]`, `2/3/other||||`, true},
	} {
		v := mustParse(t, wire.Interactions, `{"input":`+c.input+`}`)
		if got := strings.TrimSuffix(outline(v), "\n"); got != c.want || hidden.Possible(v) != c.hides {
			t.Errorf("%s: got %s, hides %t, want %s", c.input, got, hidden.Possible(v), c.want)
		}
	}
	one := mustParse(t, wire.Interactions, `{"input":"hi"}`)
	for _, input := range []string{
		`{"type":"text","text":"hi"}`, `[{"text":"hi","type":"text","annotations":[]}]`,
		`[{"type":"user_input","content":"hi"}]`, `[{"type":"user_input","content":[{"type":"text","text":"hi"}]}]`,
	} {
		if v := mustParse(t, wire.Interactions, `{"input":`+input+`}`); v.Blocks[0].Hash != one.Blocks[0].Hash ||
			v.First() != one.First() {
			t.Errorf("%s is another than the text that it means", input)
		}
	}
	result := func(members string) wire.Hash {
		return mustParse(t, wire.Interactions, `{"input":[{"type":"function_result","call_id":"c",`+members+
			`}]}`).Blocks[0].Hash
	}
	if result(`"result":"x"`) != result(`"result":[{"type":"text","text":"x"}]`) {
		t.Error("a result that is a text is another than the content that it means")
	}
	if result(`"result":"x"`) == result(`"result":"x","is_error":true`) ||
		result(`"result":"x"`) == result(`"result":"y"`) {
		t.Error("results that differ are the same")
	}
}

func TestParseInteractionsRefuses(t *testing.T) {
	for _, c := range []struct {
		body string
		want error
	}{
		{`{"model":"m"}`, wire.ErrShape},
		{`{"input":[]}`, wire.ErrShape},
		{`{"input":7}`, wire.ErrSyntax},
		{`{"input":["a"]}`, wire.ErrSyntax},
		{`{"input":{"type":"text"`, wire.ErrSyntax},
		{`{"input":"a","input":"b"}`, wire.ErrDuplicate},
		{`{"input":"a","previous_interaction_id":"b","previous_interaction_id":"c"}`, wire.ErrDuplicate},
		{`{"input":"a","tools":"x"}`, wire.ErrShape},
	} {
		if _, err := wire.Parse(wire.Interactions, []byte(c.body), nil); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.body, err, c.want)
		}
	}
}

// The provider stores or creates a part of these prompts.
func TestInteractionsPartial(t *testing.T) {
	for member, want := range map[string]bool{
		`"previous_interaction_id":"v1_a"`: true, `"agent":"deep-research"`: true, `"background":true`: true,
		`"environment":{}`:         true,
		`"continuation_token":"t"`: true, `"cached_content":"c"`: true, `"webhook_config":{}`: true,
		`"agent_config":{}`:              true,
		`"previous_interaction_id":null`: false, `"background":false`: false, `"agent":null`: false, `"store":true`: false,
		`"labels":{}`: false,
	} {
		v := mustParse(t, wire.Interactions, `{"input":"a",`+member+`}`)
		if v.Conversation.Partial != want {
			t.Errorf("%s: partial %t", member, v.Conversation.Partial)
		}
	}
	if v := mustParse(t, wire.Interactions,
		`{"input":"a","previous_interaction_id":"v1_a"}`); v.Conversation.Continues != "v1_a" {
		t.Errorf("goes on from %q", v.Conversation.Continues)
	}
}

// A parse with recall gives the same view as one without.
func TestInteractionsRecall(t *testing.T) {
	const front = `{"model":"m","input":[{"type":"user_input","content":[{"type":"text","text":"go"}]}`
	step := func(id string) string {
		return `,{"type":"thought","signature":"c2ln"},{"type":"function_call","id":"` + id +
			`","name":"f","arguments":{}},{"type":"function_result","call_id":"` + id + `","result":"r"}`
	}
	var known *wire.Known
	for i, c := range []struct {
		body     string
		recalled int
	}{
		{front + `]}`, 0},
		{front + step("1") + `]}`, 0},
		{front + step("1") + step("2") + `]}`, 3},
		{front + step("1") + step("2") + step("3") + `],"system_instruction":"s"}`, 6},
		{strings.Replace(front, "go", "come", 1) + step("1") + `]}`, 0},
	} {
		v, err := wire.Parse(wire.Interactions, []byte(c.body), func(h wire.Hash) *wire.Known {
			if known == nil || known.First() != h {
				return nil
			}
			return known
		})
		if err != nil {
			t.Fatal(err)
		}
		sameViews(t, v, mustParse(t, wire.Interactions, c.body))
		if v.Recalled != c.recalled {
			t.Errorf("request %d: recalled %d blocks, want %d", i, v.Recalled, c.recalled)
		}
		known = v.Known()
	}
}

func TestSpliceInteractions(t *testing.T) {
	v := mustParse(t, wire.Interactions, stepsBody)
	for _, c := range []struct {
		name string
		edit wire.Edit
		want string // "" = refused
	}{
		{
			"a result",
			wire.Edit{Block: 9, Op: wire.OpReplace, Value: []byte(`"x"`)},
			strings.Replace(stepsBody, `"text of a"`, `"x"`, 1),
		},
		{
			"an answer",
			wire.Edit{Block: 13, Op: wire.OpRemove},
			strings.Replace(stepsBody, "{\"type\":\"model_output\",\"content\":[{\"type\":\"text\",\"text\":\"done\"}]},\n", "",
				1),
		},
		{"the call of a thought", wire.Edit{Block: 7, Op: wire.OpReplace, Value: []byte(`{}`)}, ""},
		{
			"the next call",
			wire.Edit{Block: 8, Op: wire.OpReplace, Value: []byte(`{}`)},
			strings.Replace(stepsBody, `{"path":"b"}`, `{}`, 1),
		},
		{"a thought", wire.Edit{Block: 6, Op: wire.OpRemove}, ""},
		{"a search", wire.Edit{Block: 12, Op: wire.OpRemove}, ""},
		{
			"a step in front",
			wire.Edit{Block: 13, Op: wire.OpBefore, Value: []byte(`{"n":1}`)},
			strings.Replace(stepsBody, `{"type":"model_output"`, `{"n":1},{"type":"model_output"`, 1),
		},
		{
			"a step behind the answer",
			wire.Edit{Block: 7, Op: wire.OpAfterMessage, Value: []byte(`{"n":1}`)},
			strings.Replace(stepsBody, `{"path":"b"}}`, `{"path":"b"}},{"n":1}`, 1),
		},
	} {
		got, err := v.Splice([]wire.Edit{c.edit})
		if c.want == "" {
			if !errors.Is(err, wire.ErrEdit) {
				t.Errorf("%s: got %s, %v", c.name, got, err)
			}
			continue
		}
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v\nwant %s", c.name, got, err, c.want)
		}
	}
}

func FuzzInteractions(f *testing.F) {
	f.Add([]byte(stepsBody))
	f.Add([]byte(`{"input":{"type":"text","text":"hi"},"system_instruction":"s"}`))
	f.Add([]byte(`{"input":[{"type":"text","text":"hi"},{"type":"image"}],"tools":[{"type":"google_search"}]}`))
	f.Add([]byte(`{"input":[{"type":"thought"},{"type":"model_output","content":"a"},{"type":"model_output",` +
		`"content":[]},{"type":"function_result","result":[{"type":"text","text":"t"}]},{"type":"function_result",` +
		`"result":{}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := wire.Parse(wire.Interactions, body, nil)
		if err != nil {
			return
		}
		checkSplice(t, v)
		for _, known := range []*wire.Known{v.Known(), mustParse(t, wire.Interactions, stepsBody).Known()} {
			again, err := wire.Parse(wire.Interactions, body, func(wire.Hash) *wire.Known { return known })
			if err != nil {
				t.Fatalf("not readable with something in mind: %v", err)
			}
			sameViews(t, v, again)
		}
	})
}
