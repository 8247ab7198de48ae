// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// codexBody has the form of Codex's requests for its default model: the tools are an item, the
// calls are programs, the outputs are arrays.
const codexBody = `{"model":"gpt-6.1-sol","stream":true,"input":[
{"type":"additional_tools","id":"at_1","role":"developer","tools":[{"type":"custom","name":"exec","format":{"type":"grammar","syntax":"lark"}},{"type":"namespace","name":"x","tools":[{"type":"function","name":"y"}]}]},
{"type":"message","id":"msg_1","role":"developer","content":[{"type":"input_text","text":"rules"}]},
{"type":"message","id":"msg_2","role":"user","content":[{"type":"input_text","text":"<environment_context>"},{"type":"input_image","image_url":"data:,"}],"internal_chat_message_metadata_passthrough":{"turn_id":"t1"}},
{"type":"message","id":"msg_3","role":"user","content":[{"type":"input_text","text":"go"}]},
{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"content":null,"encrypted_content":"gAAA"},
{"type":"message","id":"msg_4","role":"assistant","content":[{"type":"output_text","text":"Let me look."}],"phase":"commentary"},
{"type":"custom_tool_call","id":"ctc_1","status":"completed","call_id":"call_1","name":"exec","input":"const r = await tools.exec_command({cmd: \"ls\"});\ntext(r);"},
{"type":"function_call","id":"fc_1","call_id":"call_2","name":"view_image","arguments":"{\"path\":\"a.png\"}"},
{"type":"custom_tool_call_output","id":"ctco_1","call_id":"call_1","output":[{"type":"input_text","text":"Script completed"},{"type":"input_text","text":"{\"output\":\"a\\nb\"}"}]},
{"type":"function_call_output","id":"fco_1","call_id":"call_2","output":[{"type":"input_image","image_url":"data:,"}]}
],"tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"medium"},"store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":"0198-a","text":{"verbosity":"low"},"client_metadata":{"b":"1","a":"2"}}`

func TestParseResponses(t *testing.T) {
	v := mustParse(t, wire.OpenAIResponses, codexBody)
	want := `2/1/tool_def||exec||
2/1/tool_def||x||
2/1/text|||"rules"|
2/2/text|||"<environment_context>"|
2/2/image||||
2/2/text|||"go"|
2/3/reasoning||||
2/3/text|||"Let me look."|
2/3/tool_use|call_1|exec|"const r = await tools.exec_command({cmd: \"ls\"});\ntext(r);"|
2/3/tool_use|call_2|view_image|"{\"path\":\"a.png\"}"|
2/4/tool_result|call_1||[{"type":"input_text","text":"Script completed"},{"type":"input_text","text":"{\"output\":\"a\\nb\"}"}]|
2/4/tool_result|call_2||[{"type":"input_image","image_url":"data:,"}]||01000
`
	if got := outline(v); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if v.Session != "0198-a" || v.Model != "gpt-6.1-sol" || !v.Reply.Stream || v.Conversation.Partial ||
		!v.OffersTools() || v.Reply.Thinking.Empty() || v.Reply.OutputConfig.Empty() {
		t.Errorf("settings: %+v", v)
	}
	roles := make([]wire.Role, len(v.Messages))
	for i, m := range v.Messages {
		roles[i] = m.Role
	}
	if want := []wire.Role{
		wire.RoleSystem, wire.RoleSystem, wire.RoleUser, wire.RoleUser, wire.RoleAssistant,
		wire.RoleTool,
	}; len(roles) != len(want) || roles[4] != want[4] || roles[5] != want[5] {
		t.Errorf("messages of %v, want %v", roles, want)
	}
}

// Items of all kinds, in the forms of clients and of the API itself.
func TestParseResponsesItems(t *testing.T) {
	for _, c := range []struct{ item, want string }{
		{`{"role":"user","content":"hi"}`, `2/2/text|||"hi"||00010`},
		{`{"role":"assistant","content":"hi"}`, `2/3/text|||"hi"|`},
		{`{"type":"message","role":"system","content":""}`, `2/1/text|||""||10010`},
		{
			`{"role":"user","content":[{"type":"input_text","text":"a","prompt_cache_breakpoint":{"mode":"explicit"}}]}`,
			`2/2/text|||"a"|{"mode":"explicit"}`,
		},
		{
			`{"role":"user","content":[{"type":"input_file","file_id":"f"},{"type":"input_audio"}]}`,
			"2/2/document||||\n2/2/other||||",
		},
		{
			`{"role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"b"}]}`,
			"2/3/text|||\"a\"||10000000\n2/3/other|||||10000000",
		},
		{`{"type":"function_call_output","call_id":"c","output":"o"}`, `2/4/tool_result|c||"o"|`},
		{`{"type":"function_call_output","call_id":"c","output":""}`, `2/4/tool_result|c||""||10000`},
		{`{"type":"function_call_output","output":{"a":1}}`, `2/4/tool_result||||`},
		{
			`{"type":"local_shell_call","id":"ls_1","call_id":"c","action":{"type":"exec","command":["ls"]}}`,
			`2/3/tool_use|c|local_shell|{"type":"exec","command":["ls"]}|`,
		},
		{`{"type":"local_shell_call_output","id":"ls_1","output":"o"}`, `2/4/tool_result|ls_1||"o"|`},
		{`{"type":"apply_patch_call","call_id":"c","operation":{"diff":"x"}}`, `2/3/tool_use|c|apply_patch||`},
		{`{"type":"shell_call_output","call_id":"c","output":[{"stdout":"x","stderr":""}]}`, `2/4/tool_result|c|||`},
		{`{"type":"web_search_call","id":"ws_1","status":"completed"}`, `2/3/server_tool||||`},
		{`{"type":"item_reference","id":"msg_1"}`, `2/3/other||||`},
		{`{"id":"msg_1"}`, `2/3/other||||`},
		{`{"type":"compaction","id":"cmp_1","encrypted_content":"g"}`, `2/3/other||||`},
		{`{"type":"compaction_trigger"}`, `2/2/other||||`},
		{`{"type":"novelty","x":1}`, `2/3/other||||`},
		{`{"type":"novelty_output","x":1}`, `2/4/tool_result||||`},
		{`{"role":"user","content":[]}`, ``},
	} {
		v := mustParse(t, wire.OpenAIResponses, `{"input":[`+c.item+`]}`)
		if got := strings.TrimSuffix(outline(v), "\n"); got != c.want {
			t.Errorf("%s: got %s, want %s", c.item, got, c.want)
		}
	}
}

func TestParseResponsesRefuses(t *testing.T) {
	for _, c := range []struct {
		body string
		want error
	}{
		{`{"model":"m"}`, wire.ErrShape},
		{`{"input":[]}`, wire.ErrShape},
		{`{"messages":[{"role":"user","content":"a"}]}`, wire.ErrShape},
		{`{"input":{}}`, wire.ErrSyntax},
		{`{"input":7}`, wire.ErrSyntax},
		{`{"input":["a"]}`, wire.ErrSyntax},
		{`{"input":"a","input":"b"}`, wire.ErrDuplicate},
		{`{"input":"a","instructions":"b","instructions":"c"}`, wire.ErrDuplicate},
		{`{"input":"a","tools":"x"}`, wire.ErrShape},
		{`{"input":[{"role":"user","content":"a"},]}`, wire.ErrSyntax},
		{`{"input":[{"role":"user","content":"a"`, wire.ErrSyntax},
	} {
		if _, err := wire.Parse(wire.OpenAIResponses, []byte(c.body), nil); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.body, err, c.want)
		}
	}
}

// Hashes ignore volatile members and include everything that the model reads.
func TestResponsesHashIsCanonical(t *testing.T) {
	const output = `{"type":"function_call_output","call_id":"c","output":`
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{
			"ids", `{"type":"function_call","id":"fc_1","call_id":"c","name":"n","arguments":"{}"}`,
			`{"type":"function_call","id":"fc_2","call_id":"c","name":"n","arguments":"{}","status":"completed"}`, true,
		},
		{
			"ids of messages", `{"type":"message","id":"a","role":"assistant","content":[{"type":"output_text","text":"x"}]}`,
			`{"type":"message","id":"b","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[],` +
				`"logprobs":[]}]}`, true,
		},
		{
			"notes", `{"role":"user","content":"x"}`,
			`{"role":"user","content":[{"type":"input_text","text":"x"}],` +
				`"internal_chat_message_metadata_passthrough":{"turn_id":"1"}}`, true,
		},
		{
			"breakpoint", `{"role":"user","content":[{"type":"input_text","text":"x"}]}`,
			`{"role":"user","content":[{"type":"input_text","text":"x","prompt_cache_breakpoint":{"mode":"explicit"}}]}`, true,
		},
		{"output as a part", output + `"x"}`, output + `[{"type":"input_text","text":"x"}],"id":"fco_1"}`, true},
		{
			"output of two parts", output + `"x"}`,
			output + `[{"type":"input_text","text":"x"},{"type":"input_text","text":"y"}]}`, false,
		},
		{
			"reasoning", `{"type":"reasoning","id":"rs_1","encrypted_content":"a"}`,
			`{"type":"reasoning","id":"rs_2","encrypted_content":"a"}`, true,
		},
		{
			"other reasoning", `{"type":"reasoning","encrypted_content":"a"}`, `{"type":"reasoning","encrypted_content":"b"}`,
			false,
		},
		{"references", `{"type":"item_reference","id":"a"}`, `{"type":"item_reference","id":"b"}`, false},
		{
			"other call", `{"type":"function_call","call_id":"c","name":"n","arguments":"{}"}`,
			`{"type":"function_call","call_id":"d","name":"n","arguments":"{}"}`, false,
		},
		{"phase", `{"role":"assistant","content":"x","phase":"commentary"}`, `{"role":"assistant","content":"x"}`, false},
		{"other role", `{"role":"user","content":"x"}`, `{"role":"developer","content":"x"}`, false},
		{
			"tools", `{"type":"additional_tools","id":"at_1","tools":[{"type":"custom","name":"a"}]}`,
			`{"type":"additional_tools","id":"at_2","tools":[{"type":"custom","name":"a"}]}`, true,
		},
	} {
		a, b := mustParse(t, wire.OpenAIResponses, `{"input":[`+c.a+`]}`),
			mustParse(t, wire.OpenAIResponses, `{"input":[`+c.b+`]}`)
		if (a.Blocks[0].Hash == b.Blocks[0].Hash) != c.same {
			t.Errorf("%s: same = %t, want %t", c.name, !c.same, c.same)
		}
	}
	text, items := mustParse(t, wire.OpenAIResponses, `{"input":"x"}`),
		mustParse(t, wire.OpenAIResponses, `{"input":[{"role":"user","content":"x"}]}`)
	if text.Blocks[0].Hash != items.Blocks[0].Hash || text.First() != items.First() {
		t.Error("an input that is a text is another than the message that it means")
	}
}

// The provider stores the history that these requests continue.
func TestResponsesPartial(t *testing.T) {
	for body, want := range map[string]struct {
		partial bool
		session string
	}{
		`{"input":"a"}`: {false, ""},
		`{"input":"a","previous_response_id":null,"conversation":null}`:             {false, ""},
		`{"input":"a","previous_response_id":"resp_1"}`:                             {true, ""},
		`{"input":"a","conversation":"conv_1"}`:                                     {true, "conv_1"},
		`{"conversation":{"id":"conv_2"},"input":"a"}`:                              {true, "conv_2"},
		`{"conversation":{"id":"conv_2"},"input":"a","prompt_cache_key":"k"}`:       {true, "k"},
		`{"input":[{"type":"item_reference","id":"x"}],"previous_response_id":"r"}`: {true, ""},
	} {
		if v := mustParse(t, wire.OpenAIResponses, body); v.Conversation.Partial != want.partial ||
			v.Session != want.session {
			t.Errorf("%s: partial %t, session %q", body, v.Conversation.Partial, v.Session)
		}
	}
	if v := mustParse(t, wire.Anthropic,
		`{"messages":[{"role":"user","content":"a"}],"conversation":"x","previous_response_id":"y"}`); v.Conversation.Partial || v.Session != "" {
		t.Error("members of another format count")
	}
}

// A parse with recall gives the same view as one without, also after answers and outputs have
// grown, shrunk or gone.
func TestResponsesRecall(t *testing.T) {
	const prefix = `{"model":"m","input":[{"type":"additional_tools","tools":[{"type":"custom","name":"exec"}]},` +
		`{"role":"developer","content":"d"},{"role":"user","content":"go"}`
	call := func(id string) string {
		return `,{"type":"function_call","call_id":"` + id + `","name":"f","arguments":"{}"}`
	}
	output := func(id string) string {
		return `,{"type":"function_call_output","call_id":"` + id + `","output":"o` + id + `"}`
	}
	reason := `,{"type":"reasoning","summary":[],"encrypted_content":"g"}`
	var known *wire.Known
	for i, c := range []struct {
		body     string
		recalled int
	}{
		{prefix + `]}`, 0},
		{prefix + reason + call("1") + output("1") + `]}`, 0},
		{prefix + reason + call("1") + output("1") + reason + call("2") + call("3") + output("2") + `]}`, 3},
		{prefix + reason + call("1") + output("1") + reason + call("2") + call("3") + output("2") + output("3") + `]}`, 7},
		{prefix + reason + call("1") + output("1") + reason + call("2") + output("2") + `]}`, 3},
		{prefix + reason + call("1") + `,{"role":"user","content":"stop"}` + reason + call("2") + output("2") + `]}`, 5},
		{prefix + reason + call("1") + output("1") + `],"instructions":"s"}`, 2},
		{strings.Replace(prefix, "go", "come", 1) + reason + call("1") + output("1") + `]}`, 0},
		{`{"input":[` + call("1")[1:] + output("1") + `]}`, 0},
		{`{"input":[` + call("1")[1:] + output("1") + `]}`, 1},
	} {
		v, err := wire.Parse(wire.OpenAIResponses, []byte(c.body), func(h wire.Hash) *wire.Known {
			if known == nil || known.First() != h {
				return nil
			}
			return known
		})
		if err != nil {
			t.Fatal(err)
		}
		sameViews(t, v, mustParse(t, wire.OpenAIResponses, c.body))
		if known != nil {
			checkShared(t, v, known, 0)
		}
		if v.Recalled != c.recalled {
			t.Errorf("request %d: recalled %d blocks, want %d", i, v.Recalled, c.recalled)
		}
		known = v.Known()
	}
}

func TestSpliceResponses(t *testing.T) {
	const body = `{"input":[{"role":"user","content":"hi"}, {"type":"reasoning","encrypted_content":"g"},` +
		`{"role":"assistant","content":"a"},{"role":"assistant","content":[{"type":"output_text","text":"b"}]} , ` +
		`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"role":"assistant","content":"c"},` +
		`{"type":"function_call_output","call_id":"c","output":"o"}],"n":1.50}`
	mark := []byte(`{"mode":"explicit"}`)
	for _, c := range []struct {
		name  string
		edits []wire.Edit
		want  string // "" = refused
	}{
		{
			"text in the middle",
			[]wire.Edit{{Block: 3, Op: wire.OpRemove}},
			strings.Replace(body, `{"role":"assistant","content":[{"type":"output_text","text":"b"}]} , `, "", 1),
		},
		{
			"text at the end of the answer",
			[]wire.Edit{{Block: 5, Op: wire.OpRemove}},
			strings.Replace(body, `{"role":"assistant","content":"c"},`, "", 1),
		},
		{
			"two texts",
			[]wire.Edit{{Block: 3, Op: wire.OpRemove}, {Block: 5, Op: wire.OpRemove}},
			strings.Replace(strings.Replace(body, `{"role":"assistant","content":"c"},`, "", 1),
				`{"role":"assistant","content":[{"type":"output_text","text":"b"}]} , `, "", 1),
		},
		{"what follows reasoning", []wire.Edit{{Block: 2, Op: wire.OpRemove}}, ""},
		{"reasoning", []wire.Edit{{Block: 1, Op: wire.OpRemove}}, ""},
		{"a call", []wire.Edit{{Block: 4, Op: wire.OpRemove}}, ""},
		{
			"replace an output",
			[]wire.Edit{{Block: 6, Op: wire.OpReplace, Value: []byte(`"x"`)}},
			strings.Replace(body, `"output":"o"`, `"output":"x"`, 1),
		},
		{
			"replace arguments",
			[]wire.Edit{{Block: 4, Op: wire.OpReplace, Value: []byte(`"[]"`)}},
			strings.Replace(body, `"arguments":"{}"`, `"arguments":"[]"`, 1),
		},
		{
			"mark a text",
			[]wire.Edit{{Block: 0, Op: wire.OpMark, Value: mark}},
			strings.Replace(body, `"content":"hi"`,
				`"content":[{"type":"input_text","text":"hi","prompt_cache_breakpoint":{"mode":"explicit"}}]`, 1),
		},
		{"mark an answer", []wire.Edit{{Block: 2, Op: wire.OpMark, Value: mark}}, ""},
		{"mark an output", []wire.Edit{{Block: 6, Op: wire.OpMark, Value: mark}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := mustParse(t, wire.OpenAIResponses, body).Splice(c.edits)
			if c.want == "" {
				if !errors.Is(err, wire.ErrEdit) {
					t.Fatalf("got %s, %v", got, err)
				}
				return
			}
			if err != nil || string(got) != c.want {
				t.Fatalf("got %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
	for _, c := range []struct{ name, body, want string }{
		{
			"input a text", `{"input":"hi"}`,
			`{"input":[{"role":"user","content":[{"type":"input_text","text":"hi",` +
				`"prompt_cache_breakpoint":{"mode":"explicit"}}]}]}`,
		},
		{
			"a part with a marker of null",
			`{"input":[{"role":"user","content":[{"prompt_cache_breakpoint": null,"type":"input_text","text":"hi"}]}]}`,
			`{"input":[{"role":"user","content":[{"prompt_cache_breakpoint": {"mode":"explicit"},"type":"input_text",` +
				`"text":"hi"}]}]}`,
		},
		{
			"a part", `{"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]}`,
			`{"input":[{"role":"user","content":[{"type":"input_text","text":"hi",` +
				`"prompt_cache_breakpoint":{"mode":"explicit"}}]}]}`,
		},
	} {
		got, err := mustParse(t, wire.OpenAIResponses, c.body).Splice([]wire.Edit{{Block: 0, Op: wire.OpMark, Value: mark}})
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v", c.name, got, err)
		}
	}
	last := `{"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","name":"f",` +
		`"arguments":"{}"} , {"role":"assistant","content":"a"},{"role":"assistant","content":"b"} ]}`
	got, err := mustParse(t, wire.OpenAIResponses, last).Splice([]wire.Edit{
		{Block: 2, Op: wire.OpRemove},
		{Block: 3, Op: wire.OpRemove},
	})
	if want := `{"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","name":"f",` +
		`"arguments":"{}"}  ]}`; err != nil || string(got) != want {
		t.Errorf("at the end: got %s, %v\nwant %s", got, err, want)
	}
}

// responsesGrowing returns two consecutive bodies of a conversation of at least size bytes, in the
// form of Codex.
func responsesGrowing(size int) (before, after []byte) {
	output, _ := json.Marshal(strings.Repeat("     1→\tfunc main() { fmt.Println(\"hello\") }\n", 40))
	turn := func(i int) string {
		return fmt.Sprintf(`,{"type":"reasoning","id":"rs_%[1]d","summary":[],"content":null,"encrypted_content":"%[2]s"},`+
			`{"type":"function_call","id":"fc_%[1]d","name":"exec_command","arguments":"{\"cmd\":\"cat /x/%[1]d\"}",`+
			`"call_id":"c%[1]d"},{"type":"function_call_output","id":"fco_%[1]d","call_id":"c%[1]d","output":%[3]s}`,
			i, strings.Repeat("gAAA", 100), output)
	}
	head, tail := `{"model":"m","input":[{"type":"additional_tools","role":"developer","tools":[{"type":"custom",`+
		`"name":"exec"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}`,
		`],"stream":true,"client_metadata":{"a":"1"}}`
	i := 0
	for ; len(head) < size; i++ {
		head += turn(i)
	}
	return []byte(head + turn(i) + tail), []byte(head + turn(i) + turn(i+1) + tail)
}

func BenchmarkParseResponses(b *testing.B) {
	for name, size := range map[string]int{"200KB": 200 << 10, "1MB": 1 << 20} {
		before, after := responsesGrowing(size)
		v := mustParse(b, wire.OpenAIResponses, string(before))
		for kind, recall := range map[string]func(wire.Hash) *wire.Known{
			"cold":  nil,
			"known": func(wire.Hash) *wire.Known { return v.Known() },
		} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.SetBytes(int64(len(after)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := wire.Parse(wire.OpenAIResponses, after, recall); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func FuzzResponses(f *testing.F) {
	f.Add([]byte(codexBody))
	f.Add([]byte(`{"input":"hi","instructions":"s","tools":[{"type":"web_search"}]}`))
	f.Add([]byte(`{"input":[{"role":"assistant","content":"a"},{"type":"reasoning"},{"id":"x"},` +
		`{"type":"function_call_output","output":[{"type":"input_text","text":"t"}]},{"type":"f_output","id":"y",` +
		`"output":""}]}`))
	f.Add([]byte(`{"input":[{"role":"assistant","content":[]},{"role":"assistant","content":"a"},{"role":"assistant",` +
		`"content":[]},{"role":"assistant","content":[{"type":"output_text","text":"b"}]},{"role":"user","content":null}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := wire.Parse(wire.OpenAIResponses, body, nil)
		if err != nil {
			return
		}
		checkSplice(t, v)
		again, err := wire.Parse(wire.OpenAIResponses, body, func(wire.Hash) *wire.Known { return v.Known() })
		if err != nil {
			t.Fatalf("not readable a second time: %v", err)
		}
		sameViews(t, v, again)
		// Recalling another conversation does no harm.
		cut := mustParse(t, wire.OpenAIResponses, codexBody)
		if again, err = wire.Parse(wire.OpenAIResponses, body,
			func(wire.Hash) *wire.Known { return cut.Known() }); err != nil {
			t.Fatalf("not readable with another in mind: %v", err)
		}
		sameViews(t, v, again)
	})
}
