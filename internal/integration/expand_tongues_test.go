// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// A piece is a block of a message, in no format: text, thought, call or result.
type piece struct{ kind, id, text string } // a call's text is its name, a blank and its arguments

// A remark is a message, in no format.
type remark struct {
	role   string // user, model
	pieces []piece
}

// A tongue writes remarks in a format.
type tongue struct {
	format  wire.Format
	path    func(stream bool) string
	request func(history []remark, stream bool) string
	// answer writes an answer, as events or whole; n tells answers apart.
	answer func(w http.ResponseWriter, pieces []piece, stream bool, n int)
}

func js(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func joined[T any](list []T, f func(T) string) string {
	var out []string
	for _, x := range list {
		if s := f(x); s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, ",")
}

func (p piece) call() (name, arguments string) {
	name, arguments, _ = strings.Cut(p.text, " ")
	return name, arguments
}

func eventsOf(w http.ResponseWriter, named bool, data ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, d := range data {
		if named {
			_, _ = fmt.Fprintf(w, "event: %s\n", gjson.Get(d, "type").Str)
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", d)
		w.(http.Flusher).Flush()
	}
}

func whole(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

var longTool = "Reads a file." + strings.Repeat(" ", 8000)

func chatCalls(pieces []piece, index bool) string {
	at := -1
	return joined(pieces, func(p piece) string {
		if p.kind != "call" && p.kind != "custom" {
			return ""
		}
		at++
		name, arguments := p.call()
		n := ""
		if index {
			n = fmt.Sprintf(`"index":%d,`, at)
		}
		if p.kind == "custom" {
			return fmt.Sprintf(`{%s"id":%q,"type":"custom","custom":{"name":%q,"input":%s}}`, n, p.id, name, js(arguments))
		}
		return fmt.Sprintf(`{%s"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, n, p.id, name,
			js(arguments))
	})
}

func textOf(pieces []piece, kind string) (s string) {
	for _, p := range pieces {
		if p.kind == kind {
			s += p.text
		}
	}
	return s
}

var chatTongue = tongue{
	wire.OpenAIChat,
	func(bool) string { return "/v1/chat/completions" },
	func(history []remark, stream bool) string {
		messages := joined(history, func(m remark) string {
			switch {
			case m.role == "model":
				calls := ""
				if c := chatCalls(m.pieces, false); c != "" {
					calls = `,"tool_calls":[` + c + `]`
				}
				return fmt.Sprintf(`{"role":"assistant","content":%s%s}`, js(textOf(m.pieces, "text")), calls)
			case m.pieces[0].kind == "result":
				return joined(m.pieces, func(p piece) string {
					return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%s}`, p.id, js(p.text))
				})
			}
			return fmt.Sprintf(`{"role":"user","content":%s}`, js(textOf(m.pieces, "text")))
		})
		options := ""
		if stream {
			options = `"stream_options":{"include_usage":true},`
		}
		return fmt.Sprintf(`{"model":"gpt-6.1","stream":%t,%s"messages":[%s],"tools":[{"type":"function",`+
			`"function":{"name":"Read","description":%q,"parameters":{}}},{"type":"function","function":{"name":"Write",`+
			`"parameters":{}}}]}`, stream, options, messages, longTool)
	},
	func(w http.ResponseWriter, pieces []piece, stream bool, n int) {
		finish, calls := "stop", chatCalls(pieces, true)
		if calls != "" {
			finish = "tool_calls"
		}
		usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, 1000*n, n, 1001*n)
		if !stream {
			if calls != "" {
				calls = `,"tool_calls":[` + chatCalls(pieces, false) + `]`
			}
			whole(w,
				fmt.Sprintf(`{"id":"c%d","object":"chat.completion","model":"m","choices":[{"index":0,`+
					`"message":{"role":"assistant","content":%s%s},"finish_reason":%q}],"usage":%s}`, n, js(textOf(pieces, "text")),
					calls, finish, usage))
			return
		}
		chunk := func(delta, finish string) string {
			return fmt.Sprintf(`{"id":"c%d","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":%s,`+
				`"finish_reason":%s}]}`, n, delta, finish)
		}
		data := []string{chunk(`{"role":"assistant","content":""}`, "null")}
		if text := textOf(pieces, "text"); text != "" {
			data = append(data, chunk(`{"content":`+js(text)+`}`, "null"))
		}
		if calls != "" {
			data = append(data, chunk(`{"tool_calls":[`+calls+`]}`, "null"))
		}
		eventsOf(w, false, append(data, chunk("{}", `"`+finish+`"`),
			fmt.Sprintf(`{"id":"c%d","object":"chat.completion.chunk","model":"m","choices":[],"usage":%s}`, n, usage),
			"[DONE]")...)
	},
}

func responsesItem(p piece) string {
	switch p.kind {
	case "thought":
		return fmt.Sprintf(`{"type":"reasoning","id":"rs_%s","summary":[{"type":"summary_text","text":%s}],`+
			`"encrypted_content":"sig-%s"}`, p.id, js(p.text), p.id)
	case "call":
		name, arguments := p.call()
		return fmt.Sprintf(`{"type":"function_call","id":"fc_%s","call_id":%q,"name":%q,"arguments":%s,"status":"completed"}`,
			p.id, p.id, name, js(arguments))
	case "custom":
		name, input := p.call()
		return fmt.Sprintf(`{"type":"custom_tool_call","id":"ctc_%s","call_id":%q,"name":%q,"input":%s,"status":"completed"}`,
			p.id, p.id, name, js(input))
	case "item": // as it stands
		return p.text
	case "result":
		return fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":%s}`, p.id, js(p.text))
	}
	return fmt.Sprintf(`{"type":"message","id":"msg_x","role":"assistant","status":"completed",`+
		`"content":[{"type":"output_text","text":%s,"annotations":[]}]}`, js(p.text))
}

var responsesTongue = tongue{
	wire.OpenAIResponses,
	func(bool) string { return "/v1/responses" },
	func(history []remark, stream bool) string {
		items := joined(history, func(m remark) string {
			if m.role == "user" && m.pieces[0].kind == "text" {
				return fmt.Sprintf(`{"type":"message","role":"user","content":[{"type":"input_text","text":%s}]}`,
					js(textOf(m.pieces, "text")))
			}
			return joined(m.pieces, responsesItem)
		})
		return fmt.Sprintf(`{"model":"gpt-6.1","stream":%t,"store":false,"instructions":"You are an agent.","input":[%s],`+
			`"tools":[{"type":"function","name":"Read","description":%q,"parameters":{}},{"type":"function","name":"Write",`+
			`"parameters":{}}]}`, stream, items, longTool)
	},
	func(w http.ResponseWriter, pieces []piece, stream bool, n int) {
		object := func(status, output string) string {
			return fmt.Sprintf(`{"id":"resp_%d","object":"response","created_at":1,"status":%q,"model":"gpt-6.1",`+
				`"store":false,"output":[%s],"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":0},`+
				`"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":%d}}`, n, status, output,
				1000*n, n, 1001*n)
		}
		done := object("completed", joined(pieces, responsesItem))
		if !stream {
			whole(w, done)
			return
		}
		var data []string
		event := func(kind, rest string) {
			data = append(data, fmt.Sprintf(`{"type":%q,"sequence_number":%d,%s}`, kind, len(data), rest))
		}
		event("response.created", `"response":`+object("in_progress", ""))
		for i, p := range pieces {
			item := responsesItem(p)
			begun := strings.Replace(item, js(p.text), `""`, 1)
			_, arguments := p.call()
			if p.kind == "call" || p.kind == "custom" {
				begun = strings.Replace(item, js(arguments), `""`, 1)
			}
			event("response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":%s`, i, begun))
			switch p.kind {
			case "text":
				event("response.output_text.delta", fmt.Sprintf(`"item_id":"x","output_index":%d,"content_index":0,"delta":%s`, i,
					js(p.text)))
			case "thought":
				event("response.reasoning_summary_text.delta",
					fmt.Sprintf(`"item_id":"x","output_index":%d,"summary_index":0,"delta":%s`, i, js(p.text)))
			case "call":
				event("response.function_call_arguments.delta", fmt.Sprintf(`"item_id":"x","output_index":%d,"delta":%s`, i,
					js(arguments)))
			case "custom":
				event("response.custom_tool_call_input.delta", fmt.Sprintf(`"item_id":"x","output_index":%d,"delta":%s`, i,
					js(arguments)))
				event("response.custom_tool_call_input.done", fmt.Sprintf(`"item_id":"x","output_index":%d,"input":%s`, i,
					js(arguments)))
			}
			event("response.output_item.done", fmt.Sprintf(`"output_index":%d,"item":%s`, i, item))
		}
		event("response.completed", `"response":`+done)
		eventsOf(w, true, data...)
	},
}

func geminiPart(p piece) string {
	switch p.kind {
	case "thought":
		return fmt.Sprintf(`{"text":%s,"thought":true}`, js(p.text))
	case "call":
		name, arguments := p.call()
		return fmt.Sprintf(`{"functionCall":{"id":%q,"name":%q,"args":%s},"thoughtSignature":"sig-%s"}`, p.id, name,
			arguments, p.id)
	case "result":
		return fmt.Sprintf(`{"functionResponse":{"id":%q,"name":"Read","response":{"output":%s}}}`, p.id, js(p.text))
	}
	return fmt.Sprintf(`{"text":%s}`, js(p.text))
}

var geminiTongue = tongue{
	wire.Gemini,
	func(stream bool) string {
		if stream {
			return "/v1beta/models/gemini-3.1-pro:streamGenerateContent?alt=sse"
		}
		return "/v1beta/models/gemini-3.1-pro:generateContent"
	},
	func(history []remark, _ bool) string {
		contents := joined(history, func(m remark) string {
			return fmt.Sprintf(`{"role":%q,"parts":[%s]}`, m.role, joined(m.pieces, geminiPart))
		})
		return fmt.Sprintf(`{"contents":[%s],"tools":[{"functionDeclarations":[{"name":"Read","description":%q},`+
			`{"name":"Write"}]},{"urlContext":{}}]}`, contents, longTool)
	},
	func(w http.ResponseWriter, pieces []piece, stream bool, n int) {
		chunk := func(parts, finish string) string {
			return fmt.Sprintf(`{"candidates":[{"content":{"parts":[%s],"role":"model"}%s,"index":0}],`+
				`"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d,"totalTokenCount":%d},`+
				`"modelVersion":"gemini-3.1-pro","responseId":"r%d"}`, parts, finish, 1000*n, n, 1001*n, n)
		}
		if !stream {
			whole(w, chunk(joined(pieces, geminiPart), `,"finishReason":"STOP"`))
			return
		}
		var data []string
		for i, p := range pieces {
			finish := ""
			if i == len(pieces)-1 {
				finish = `,"finishReason":"STOP"`
			}
			if p.kind == "call" {
				data = append(data, chunk(geminiPart(p), finish))
				continue
			}
			half := len(p.text) / 2
			a, b := p, p
			a.text, b.text = p.text[:half], p.text[half:]
			data = append(data, chunk(geminiPart(a), ""), chunk(geminiPart(b), finish))
		}
		eventsOf(w, false, data...)
	},
}

func step(p piece) string {
	switch p.kind {
	case "thought":
		return fmt.Sprintf(`{"type":"thought","signature":"sig-%s","summary":[{"type":"text","text":%s}]}`, p.id, js(p.text))
	case "call":
		name, arguments := p.call()
		return fmt.Sprintf(`{"type":"function_call","id":%q,"name":%q,"arguments":%s}`, p.id, name, arguments)
	case "result":
		return fmt.Sprintf(`{"type":"function_result","call_id":%q,"name":"Read","result":%s}`, p.id, js(p.text))
	}
	return fmt.Sprintf(`{"type":"model_output","content":[{"type":"text","text":%s}]}`, js(p.text))
}

var interactionsTongue = tongue{
	wire.Interactions,
	func(bool) string { return "/v1beta/interactions" },
	func(history []remark, stream bool) string {
		steps := joined(history, func(m remark) string {
			if m.role == "user" && m.pieces[0].kind == "text" {
				return fmt.Sprintf(`{"type":"user_input","content":[{"type":"text","text":%s}]}`, js(textOf(m.pieces, "text")))
			}
			return joined(m.pieces, step)
		})
		return fmt.Sprintf(`{"model":"gemini-3.1-pro","stream":%t,"store":false,"system_instruction":"You are an agent.",`+
			`"input":[%s],"tools":[{"type":"function","name":"Read","description":%q,"parameters":{}},{"type":"function",`+
			`"name":"Write","parameters":{}},{"type":"google_search"}]}`, stream, steps, longTool)
	},
	func(w http.ResponseWriter, pieces []piece, stream bool, n int) {
		status := "completed"
		if slices.ContainsFunc(pieces, func(p piece) bool { return p.kind == "call" }) {
			status = "requires_action"
		}
		object := func(status, steps string) string {
			return fmt.Sprintf(`{"id":"v1_%d","object":"interaction","status":%q,"model":"gemini-3.1-pro"%s,`+
				`"usage":{"total_input_tokens":%d,"total_output_tokens":%d,"total_tokens":%d}}`, n, status, steps, 1000*n, n,
				1001*n)
		}
		if !stream {
			whole(w, object(status, `,"steps":[`+joined(pieces, step)+`]`))
			return
		}
		var data []string
		event := func(kind, rest string) {
			data = append(data, fmt.Sprintf(`{%s,"event_type":%q,"type":%q}`, rest, kind, kind))
		}
		event("interaction.created", `"interaction":`+object("in_progress", ""))
		for i, p := range pieces {
			delta := func(d string) { event("step.delta", fmt.Sprintf(`"index":%d,"delta":%s`, i, d)) }
			name, arguments := p.call()
			begun := map[string]string{
				"text": `{"type":"model_output"}`, "thought": `{"type":"thought"}`,
				"call": fmt.Sprintf(`{"type":"function_call","id":%q,"name":%q,"arguments":{}}`, p.id, name),
			}[p.kind]
			event("step.start", fmt.Sprintf(`"index":%d,"step":%s`, i, begun))
			switch half := len(p.text) / 2; p.kind {
			case "call":
				delta(fmt.Sprintf(`{"type":"arguments_delta","arguments":%s}`, js(arguments)))
			case "thought":
				delta(fmt.Sprintf(`{"type":"thought_summary","content":{"type":"text","text":%s}}`, js(p.text)))
				delta(fmt.Sprintf(`{"type":"thought_signature","signature":"sig-%s"}`, p.id))
			default:
				delta(fmt.Sprintf(`{"type":"text","text":%s}`, js(p.text[:half])))
				delta(fmt.Sprintf(`{"type":"text","text":%s}`, js(p.text[half:])))
			}
			event("step.stop", fmt.Sprintf(`"index":%d`, i))
		}
		event("interaction.completed", `"interaction":`+object(status, ""))
		eventsOf(w, true, data...)
		_, _ = io.WriteString(w, "event: done\ndata: [DONE]\n\n")
	},
}

var tongues = []tongue{chatTongue, responsesTongue, geminiTongue, interactionsTongue}

func text(s string) piece    { return piece{"text", "", s} }
func thought(s string) piece { return piece{"thought", s, s} }
func called(id, text string) piece {
	return piece{"call", id, text}
}

func expands(id string, names ...string) piece {
	return called(id, "mcp__llm_cache__expand "+js(map[string]any{"ids": names}))
}

// history is a conversation after so many turns.
func history(turns int, more ...remark) []remark {
	out := []remark{{"user", []piece{text("Fix the build.")}}}
	for i := range turns {
		id := fmt.Sprintf("call_%d", i)
		out = append(out,
			remark{"model", []piece{called(id, fmt.Sprintf(`Read {"file_path":"/src/file%d.go"}`, i))}},
			remark{"user", []piece{{"result", id, strings.ReplaceAll(fileZero, "file 0", fmt.Sprintf("file %d", i))}}})
	}
	for i := range out {
		for j := range out[i].pieces {
			out[i].pieces[j].text = strings.ReplaceAll(out[i].pieces[j].text, `\n`, "\n")
		}
	}
	return append(out, more...)
}

// outline is what an upstream was sent, block by block and in no format; texts
// of one message are one.
func (g tongue) outline(t *testing.T, body string) (out []string) {
	t.Helper()
	if !gjson.Valid(body) {
		t.Fatalf("no JSON: %s", body)
	}
	v, err := wire.Parse(g.format, []byte(body), nil)
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for i := range v.MessageBlocks() {
		b := &v.MessageBlocks()[i]
		s := gjson.ParseBytes(v.Bytes(b.Body)).String()
		switch b.Kind {
		case wire.KindReasoning:
			s = gjson.GetBytes(v.Bytes(b.Span), "summary.0.text").Str
		case wire.KindText:
			if s == "" {
				continue
			}
		case wire.KindToolUse:
			s = v.Text(b.Name) + " " + v.Text(b.ID)
		case wire.KindToolResult:
			s = v.Text(b.ID) + " " + s
		}
		out = append(out, b.Kind.String()+": "+s)
	}
	return out
}

func (m remark) outline() (out []string) {
	for _, p := range m.pieces {
		s := map[string]string{
			"text": "text: ", "thought": "thinking: ", "call": "tool_use: ",
			"result": "tool_result: ",
		}[p.kind]
		switch p.kind {
		case "call":
			name, _ := p.call()
			s += name + " " + p.id
		case "result":
			s += p.id + " " + p.text
		default:
			s += p.text
		}
		out = append(out, s)
	}
	return out
}

// strictly checks what only a strict client sees, and decodes the answer.
func (g tongue) strictly(t *testing.T, body string, stream bool) *wire.Turn {
	t.Helper()
	d := wire.NewDecoder(g.format, stream)
	d.Feed([]byte(body))
	at, items := int64(0), int64(0)
	ids := map[string]bool{}
	for line := range strings.SplitSeq(body, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		if !gjson.Valid(data) {
			t.Fatalf("no JSON: %s", data)
		}
		root := gjson.Parse(data)
		switch g.format {
		case wire.OpenAIResponses:
			if n := root.Get("sequence_number").Int(); n != at {
				t.Errorf("event %d is numbered %d: %s", at, n, data)
			}
			at++
			if root.Get("type").Str == "response.output_item.added" {
				if n := root.Get("output_index").Int(); n != items {
					t.Errorf("item %d is numbered %d", items, n)
				}
				items++
			}
			if root.Get("type").Str == "response.completed" && root.Get("response.output.#").Int() != items {
				t.Errorf("%d items, in the end %s", items, root.Get("response.output").Raw)
			}
		case wire.Interactions:
			switch kind := root.Get("event_type").Str; kind {
			case "step.start":
				if n := root.Get("index").Int(); n != items {
					t.Errorf("step %d is numbered %d", items, n)
				}
				items++
			case "interaction.created", "interaction.completed":
				if at++; (at == 1) != (kind == "interaction.created") {
					t.Errorf("event %d is %s", at, data)
				}
			}
		case wire.Gemini:
			if id := root.Get("responseId").Str; id != "" {
				ids[id] = true
			}
		default:
			if id := root.Get("id").Str; id != "" {
				ids[id] = true
			}
		}
	}
	if len(ids) > 1 {
		t.Errorf("ids are %v", ids)
	}
	return d.Turn()
}
