// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package intercept_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

const note = `[llm_cache: 30 lines as in the result of Bash grep "a\.b" /src/é above]`

// marked has the marks of a prompt.
var marked = intercept.NewMarks([]string{
	"[[llm_cache:folded 1f3a9c27", note, "[Compacted: 12 lines, 3400 chars]",
	"no mark",
})

// quoted encodes a text as a JSON string, in the style of some encoder.
func quoted(text string) string { return string(rawjson.Quote(text)) }

// A mark is found at any level of escaping, and nothing else is.
func TestMarks(t *testing.T) {
	ascii := strings.NewReplacer("[", `\u005b`, "é", `\u00E9`, "/", `\/`)
	for _, c := range []struct{ name, text, want string }{
		{"alone", note, note},
		{"in JSON", `{"content":` + quoted("first\n"+note+"\nlast") + `}`, note},
		{"in JSON in ASCII", `{"content":` + ascii.Replace(quoted("first\n"+note)) + `}`, note},
		{"in JSON in a string", quoted(`{"content":` + quoted(note) + `}`), note},
		{"in a program", "exec text(await tools.write(" + quoted(note) + "));", note},
		{"a stub", `{"a":"[[llm_cache:folded 1f3a9c27.2: 20 lines, 300 chars]]"}`, "[[llm_cache:folded 1f3a9c27"},
		{"a stub behind brackets", `{"a":[["[[[llm_cache:folded 1f3a9c27: Read"]]}`, "[[llm_cache:folded 1f3a9c27"},
		{
			"a note behind its beginning", `[llm_cache: 30 lines [[llm_cache: 30 [Compacted: 12 lines, 3400 chars]`,
			"[Compacted: 12 lines, 3400 chars]",
		},
		{"a stub of another conversation", `[[llm_cache:folded 1f3a9c28: Read]]`, ""},
		{"another note", strings.Replace(note, "30", "31", 1), ""},
		{"half a note", note[:len(note)-1], ""},
		{"what is no mark", "no mark", ""},
		{"half an escape", `\u005bllm_cache\u00`, ""},
		{"no escape", `\u005g \ud83d[[llm_cache:folded 1f3a9c27`, "[[llm_cache:folded 1f3a9c27"},
	} {
		if got := marked.In(c.text); got != intercept.Plain(c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if got := new(intercept.Marks).In(note); got != "" {
		t.Errorf("without marks: got %q", got)
	}
}

// A writer writes the events of one call from the pieces of its arguments.
type writer struct {
	name   string
	format wire.Format
	free   bool // the arguments are free text
	events func(pieces []string) []string
	// text reads the arguments from the client's output.
	text func(events []gjson.Result) string
}

func deltas(path string) func([]gjson.Result) string {
	return func(events []gjson.Result) (text string) {
		for _, e := range events {
			text += e.Get(path).Str
		}
		return text
	}
}

func responsesCall(kind, member, deltaType string) func([]string) []string {
	return func(pieces []string) []string {
		item := func(text string) string {
			return fmt.Sprintf(`{"type":%q,"id":"fc_1","call_id":"c1","name":"Bash",%q:%s}`, kind, member, quoted(text))
		}
		out := []string{
			`{"type":"response.created","response":{"id":"r","model":"m"}}`,
			`{"type":"response.output_item.added","output_index":0,"item":` + item("") + `}`,
		}
		for _, p := range pieces {
			out = append(out, fmt.Sprintf(`{"type":%q,"output_index":0,"delta":%s}`, deltaType+".delta", quoted(p)))
		}
		whole := item(strings.Join(pieces, ""))
		return append(out, fmt.Sprintf(`{"type":%q,"output_index":0,%q:%s}`, deltaType+".done", member,
			quoted(strings.Join(pieces, ""))),
			`{"type":"response.output_item.done","output_index":0,"item":`+whole+`}`,
			`{"type":"response.completed","response":{"id":"r","status":"completed","output":[`+whole+`]}}`)
	}
}

var writers = []writer{
	{"messages", wire.Anthropic, false, func(pieces []string) []string {
		out := []string{
			`{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"Bash","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}`,
		}
		for _, p := range pieces {
			out = append(out, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":`+
				quoted(p)+`}}`)
		}
		return append(out, `{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}`, `{"type":"message_stop"}`)
	}, deltas("delta.partial_json")},
	{"chat", wire.OpenAIChat, false, func(pieces []string) []string {
		chunk := func(delta, finish string) string {
			return `{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` +
				finish + `}]}`
		}
		out := []string{chunk(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"t","type":"function",`+
			`"function":{"name":"bash","arguments":""}}]}`, "null")}
		for _, p := range pieces {
			out = append(out, chunk(`{"tool_calls":[{"index":0,"function":{"arguments":`+quoted(p)+`}}]}`, "null"))
		}
		return append(out, chunk(`{}`, `"tool_calls"`), `[DONE]`)
	}, deltas("choices.0.delta.tool_calls.0.function.arguments")},
	{"chat, with the usage in each chunk", wire.OpenAIChat, false, func(pieces []string) []string {
		chunk := func(delta, finish string) string {
			return `{"id":"c","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish +
				`}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
		}
		out := []string{chunk(`{"role":"assistant","content":"I write.","tool_calls":[{"index":0,"id":"t",`+
			`"type":"function","function":{"name":"bash","arguments":""}}]}`, "null")}
		for _, p := range pieces {
			out = append(out, chunk(`{"tool_calls":[{"index":0,"function":{"arguments":`+quoted(p)+`}}]}`, "null"))
		}
		return append(out, chunk(`{}`, `"tool_calls"`), `[DONE]`)
	}, deltas("choices.0.delta.tool_calls.0.function.arguments")},
	{"chat, custom", wire.OpenAIChat, true, func(pieces []string) []string {
		chunk := func(delta, finish string) string {
			return `{"id":"c","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`
		}
		out := []string{chunk(`{"tool_calls":[{"index":0,"id":"t","type":"custom","custom":{"name":"bash","input":""}}]}`,
			"null")}
		for _, p := range pieces {
			out = append(out, chunk(`{"tool_calls":[{"index":0,"custom":{"input":`+quoted(p)+`}}]}`, "null"))
		}
		return append(out, chunk(`{}`, `"tool_calls"`), `[DONE]`)
	}, deltas("choices.0.delta.tool_calls.0.custom.input")},
	{
		"responses", wire.OpenAIResponses, false,
		responsesCall("function_call", "arguments", "response.function_call_arguments"), deltas("delta"),
	},
	{
		"responses, custom", wire.OpenAIResponses, true,
		responsesCall("custom_tool_call", "input", "response.custom_tool_call_input"), deltas("delta"),
	},
	{"gemini, in pieces", wire.Gemini, true, func(pieces []string) []string {
		part := func(call, finish string) string {
			return `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":` + call + `}]}` + finish + `}]}`
		}
		out := []string{part(`{"name":"Bash","id":"t","willContinue":true}`, "")}
		for _, p := range pieces {
			out = append(out, part(`{"partialArgs":[{"jsonPath":"$.command","stringValue":`+quoted(p)+
				`,"willContinue":true}],"willContinue":true}`, ""))
		}
		return append(out, part(`{}`, `,"finishReason":"STOP"`))
	}, func(events []gjson.Result) (text string) {
		for _, e := range events {
			text += e.Get("candidates.0.content.parts.0.functionCall.partialArgs.0.stringValue").Str
		}
		return text
	}},
	{"interactions", wire.Interactions, false, func(pieces []string) []string {
		out := []string{
			`{"event_type":"interaction.created","interaction":{"id":"v"}}`,
			`{"event_type":"step.start","index":0,"step":{"type":"function_call","id":"t","name":"Bash","arguments":{}}}`,
		}
		for _, p := range pieces {
			out = append(out, `{"event_type":"step.delta","index":0,"delta":{"type":"arguments_delta","arguments":`+quoted(p)+
				`}}`)
		}
		return append(out, `{"event_type":"step.stop","index":0}`,
			`{"event_type":"interaction.completed","interaction":{"id":"v","status":"requires_action","usage":{}}}`)
	}, deltas("delta.arguments")},
}

// stream joins events, with a given kind of line end.
func stream(events []string, end string) (out []string) {
	for i, e := range events {
		if i == 1 {
			out = append(out, ": a sign of life"+end+end)
		}
		name := gjson.Get(e, "type").Str
		if name != "" {
			name = "event: " + name + end
		}
		out = append(out, name+"data: "+e+end+end)
	}
	return out
}

// watch feeds events one by one and returns the client's output after each.
func watch(w *writer, whole bool, events []string) ([]string, *intercept.Interceptor) {
	o := options
	o.Whole, o.Marks = whole, func() *intercept.Marks { return marked }
	r := intercept.NewInterceptor(w.format, o)
	var out []string
	for _, e := range events {
		out = append(out, string(r.Feed([]byte(e))))
	}
	return append(out, string(r.End())), r
}

func read(got []string) (events []gjson.Result) {
	for line := range strings.SplitSeq(strings.Join(got, ""), "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok || strings.HasPrefix(line, "{") {
			events = append(events, gjson.Parse(data))
		}
	}
	return events
}

// arguments puts a text into the arguments of a call.
func (w *writer) arguments(text string) string {
	if w.free {
		return "*** Begin Patch\n" + text + "\n*** End Patch"
	}
	return `{"file_path":"/o","content":` + quoted("begin [[llm_cache: "+text+"\nend") + `}`
}

// A call without a mark reaches the client in the upstream's own bytes, for any cuts. No piece
// waits longer than until the next piece rules a mark out.
func TestCallsStream(t *testing.T) {
	for _, w := range writers {
		arguments := w.arguments(`[llm_cache: 30 lines as in the result of Bash grep "a\.b" of another [[llm_cache:folded ` +
			`1f3a9c28: Read] \ud83d\ude00`)
		for _, end := range []string{"\n", "\r\n", "\r"} {
			for cut := range arguments {
				events := stream(w.events([]string{arguments[:cut], arguments[cut:]}), end)
				got, r := watch(&w, false, events)
				if sent, want := strings.Join(got, ""), strings.Join(events, ""); sent != want || r.Failed() || r.Asks() {
					t.Fatalf("%s, cut at %d: failed %t, asks %t, got\n%s\nwant\n%s", w.name, cut, r.Failed(), r.Asks(), sent, want)
				}
			}
		}
		var pieces []string
		for line := range 50 {
			pieces = append(pieces, fmt.Sprintf("line %d of [an array], ", line))
		}
		pieces = append(pieces, "line 50: s[", "line 51] = ")
		pieces[0] = strings.TrimSuffix(w.arguments("@"), "@")[:10] + pieces[0]
		events := stream(w.events(pieces), "\n")
		got, _ := watch(&w, false, events)
		for i, e := range events {
			if strings.Contains(e, "line ") && !strings.Contains(e, ".done") && !strings.Contains(e, "completed") &&
				!strings.HasSuffix(got[i], e) {
				t.Errorf("%s: %q waits: the client gets %q", w.name, e, got[i])
			}
		}
	}
}

// No byte of a mark reaches the client in a call, for any cuts. If none of the call was sent, the
// model is asked again, else the stream ends with an error.
func TestCopiedMarks(t *testing.T) {
	for _, w := range writers {
		for _, mark := range []string{
			note, "[[llm_cache:folded 1f3a9c27: Read /src/a.go, 300 lines]]",
			"[Compacted: 12 lines, 3400 chars]",
		} {
			arguments := w.arguments(mark)
			clean := arguments[:strings.LastIndex(arguments, mark[:12])]
			for cut := range arguments {
				events := stream(w.events([]string{arguments[:cut], arguments[cut:]}), "\n")
				got, r := watch(&w, false, events)
				text := w.text(read(got))
				last := read(got)[len(read(got))-1]
				switch {
				case !strings.HasPrefix(clean, strings.TrimRight(text, "[")):
					t.Fatalf("%s, cut at %d: the client got\n%s", w.name, cut, strings.Join(got, ""))
				case r.Failed() == r.Asks():
					t.Fatalf("%s, cut at %d: failed %t, asks %t\n%s", w.name, cut, r.Failed(), r.Asks(), strings.Join(got, ""))
				case r.Failed() && !strings.Contains(last.Raw+strings.Join(got, ""), "Try again."):
					t.Fatalf("%s, cut at %d: the stream ends in %s", w.name, cut, last.Raw)
				case r.Asks() && text != "":
					t.Fatalf("%s, cut at %d: the client has %q", w.name, cut, text)
				}
			}
			if w.format == wire.Gemini { // calls in pieces cannot be repeated
				continue
			}
			pieces := strings.SplitAfter(arguments, "")
			got, r := watch(&w, true, stream(w.events(pieces), "\n"))
			if !r.Asks() || w.text(read(got)) != "" {
				t.Errorf("%s, whole: asks %t\n%s", w.name, r.Asks(), got)
			}
		}
	}
}

// With complete calls buffered, a call without a mark reaches the client at its end, unmodified.
func TestWholeCalls(t *testing.T) {
	for _, w := range writers {
		arguments := w.arguments("real text [")
		events := stream(w.events(strings.SplitAfter(arguments, "")), "\n")
		got, r := watch(&w, true, events)
		if text := w.text(read(got)); text != arguments || r.Asks() || r.Failed() {
			t.Errorf("%s: asks %t, failed %t, got %q, want %q", w.name, r.Asks(), r.Failed(), text, arguments)
		}
	}
}

// FuzzMarks: a mark is found in one piece if and only if it is found in several.
func FuzzMarks(f *testing.F) {
	for _, s := range []string{note, quoted(note), `\u005b[llm_cache:folded 1f3a9c27`, `\\\u00`} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, text string, cut int) {
		w := &writers[slices.IndexFunc(writers, func(w writer) bool { return w.name == "chat, custom" })]
		cut = min(max(cut, 0), len(text))
		for cut > 0 && cut < len(text) && text[cut]&0xc0 == 0x80 {
			cut--
		}
		_, r := watch(w, false, stream(w.events([]string{text[:cut], text[cut:]}), "\n"))
		if got, want := r.Failed() || r.Asks(), marked.In(text) != ""; got != want {
			t.Errorf("in pieces %t, whole %t", got, want)
		}
	})
}
