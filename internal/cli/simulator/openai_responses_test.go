// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

const responsesTools = `"tools":[{"type":"function","name":"Bash"},{"type":"custom","name":"exec"}],` +
	`"include":["reasoning.encrypted_content"]`

// All content of a step reaches a client of the Responses API, with and without a stream: arguments
// as JSON, those of custom tools as free text.
func TestResponses(t *testing.T) {
	long := strings.Repeat("Größe → ✅ <&> \"quoted\"\n", 20)
	script, err := ParseScript([]byte(`[{"thinking":` + string(encode(long)) + `,"text":"I look.","calls":[
		{"name":"Bash","input":{"command":"ls -l <a>"}},{"name":"exec","input":"text(\"ö\");\n"},{"name":"exec","input":{"input":"x"}}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	var objects [2]json.RawMessage
	for i, stream := range []bool{false, true} {
		h := &Handler{Cache: newCache(t, "openai-responses"), Script: script}
		w := post(h, "/v1/responses", fmt.Sprintf(`{"model":"m","stream":%t,"input":"go",%s}`, stream, responsesTools))
		got := turn(t, wire.OpenAIResponses, stream, w)
		if got.Thinking != long || got.Text != "I look." || got.StopReason != "completed" {
			t.Errorf("thinking %q, text %q, %s", got.Thinking, got.Text, got.StopReason)
		}
		want := []string{`Bash {"command":"ls -l <a>"} false`, "exec text(\"ö\");\n true", "exec x true"}
		if len(got.Calls) != len(want) {
			t.Fatalf("%d calls, want %d", len(got.Calls), len(want))
		}
		for j, c := range got.Calls {
			if s := fmt.Sprint(c.Name, " ", c.Arguments, " ", c.Free); s != want[j] {
				t.Errorf("call %d is %s, want %s", j, s, want[j])
			}
		}
		if !got.Usage.Reported || got.Usage.Prompt() == 0 || got.Usage.Output == 0 {
			t.Errorf("usage %+v", got.Usage)
		}
		objects[i] = w.Body.Bytes()
		if stream {
			lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
			var last struct{ Response json.RawMessage }
			if err := json.Unmarshal([]byte(strings.TrimPrefix(lines[len(lines)-1], "data: ")), &last); err != nil {
				t.Fatal(err)
			}
			objects[i] = last.Response
		}
	}
	var outputs [2]struct{ Output []map[string]any }
	for i := range objects {
		if err := json.Unmarshal(objects[i], &outputs[i]); err != nil {
			t.Fatal(err)
		}
		for _, item := range outputs[i].Output {
			delete(item, "id")
		}
	}
	if !reflect.DeepEqual(outputs[0], outputs[1]) || outputs[0].Output[0]["encrypted_content"] != Sign(long) {
		t.Errorf("the last event holds another answer than a whole one:\n%v\n%v", outputs[0], outputs[1])
	}
}

// The input may contain the tools, steps are counted by answers, and a compaction request gets one
// compaction item.
func TestResponsesInput(t *testing.T) {
	script, err := ParseScript([]byte(`[{"calls":[{"name":"exec","input":"a"}]},{"calls":[{"name":"exec","input":"b"}],` +
		`"stop_reason":"max_tokens"}]`))
	if err != nil {
		t.Fatal(err)
	}
	h := &Handler{Cache: newCache(t, "openai-responses"), Script: script}
	prefix := `{"model":"m","stream":true,"input":[{"type":"additional_tools","role":"developer",` +
		`"tools":[{"type":"custom","name":"exec"}]},{"role":"user","content":"go"}`
	grouped := strings.Replace(prefix, `[{"type":"custom","name":"exec"}]`,
		`[{"type":"namespace","name":"n","tools":[{"type":"custom","name":"exec"}]}]`, 1)
	if w := post(h, "/v1/responses", grouped+`]}`); !strings.Contains(w.Body.String(), `"type":"custom_tool_call"`) {
		t.Errorf("a tool in a group: %s", w.Body)
	}
	first := turn(t, wire.OpenAIResponses, true, post(h, "/v1/responses", prefix+`]}`))
	if len(first.Calls) != 1 || first.Calls[0].Arguments != "a" {
		t.Fatalf("first step: %+v", first)
	}
	prefix += `,{"type":"reasoning","id":"rs_1","summary":[]},{"type":"custom_tool_call","call_id":"` + first.Calls[0].ID +
		`","name":"exec","input":"a"},{"type":"custom_tool_call_output","call_id":"` + first.Calls[0].ID + `","output":"ok"}`
	second := turn(t, wire.OpenAIResponses, true, post(h, "/v1/responses", prefix+`]}`))
	if len(second.Calls) != 1 || second.Calls[0].Arguments != "b" || second.StopReason != "max_output_tokens" {
		t.Errorf("second step: %+v", second)
	}
	w := post(h, "/v1/responses", prefix+`,{"type":"compaction_trigger"}]}`)
	if got := turn(t, wire.OpenAIResponses, true, w); len(got.Calls) > 0 || got.Text != "" ||
		strings.Count(w.Body.String(), `"encrypted_content"`) != 3 {
		t.Errorf("compaction: %+v %s", got, w.Body)
	}
	if w := post(h, "/v1/responses", strings.Replace(prefix, `"type":"custom_tool_call_output"`,
		`"type":"message","role":"user"`, 1)+`]}`); w.Code != 400 {
		t.Errorf("a call without output: %d %s", w.Code, w.Body)
	}
}

// TestResponsesItem: a given item is sent unchanged, with and without a stream.
func TestResponsesItem(t *testing.T) {
	const item = `{"type":"message","id":"msg_ab1","role":"assistant","content":[{"type":"output_text","text":"I ` +
		`<look>."}]}`
	for _, stream := range []bool{false, true} {
		h := &Handler{Cache: newCache(t, "openai-responses"), Hooks: Hooks{Answer: func(context.Context, *wire.View) *Answer {
			return &Answer{Blocks: []Block{{Type: Text, Text: "I <look>.", Item: json.RawMessage(item)}}}
		}}}
		w := post(h, "/v1/responses", fmt.Sprintf(`{"model":"m","stream":%t,"input":"go"}`, stream))
		if got := turn(t, wire.OpenAIResponses, stream, w); got.Text != "I <look>." {
			t.Errorf("text %q", got.Text)
		}
		times := map[bool]int{false: 1, true: 2}[stream] // in its own done event, and at the end
		if n := strings.Count(w.Body.String(), item); n != times {
			t.Errorf("streamed %t: the item came %d times:\n%s", stream, n, w.Body)
		}
	}
}
