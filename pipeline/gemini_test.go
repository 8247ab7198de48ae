// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

func model(parts string) string { return `,{"role":"model","parts":[` + parts + `]}` }
func tools(parts string) string { return `,{"role":"user","parts":[` + parts + `]}` }

func functionCall(name, id, args, more string) string {
	if id != "" {
		id = `"id":"` + id + `",`
	}
	return fmt.Sprintf(`{"functionCall":{%s"name":%q,"args":%s}%s}`, id, name, args, more)
}

func functionResponse(name, id, output string) string {
	if id != "" {
		id = `"id":"` + id + `",`
	}
	return fmt.Sprintf(`{"functionResponse":{%s"name":%q,"response":{"output":%s}}}`, id, name, content.Quote(output))
}

// geminiRequest is the start of a request with a prompt and a tool.
func geminiRequest(contents string) []byte {
	return []byte(`{"contents":[{"role":"user","parts":[{"text":"go"}]}` + contents +
		`],"tools":[{"functionDeclarations":[{"name":"read_file"}]}]}`)
}

// begin runs a request through the pipeline, as the first of its conversation.
func begin(t *testing.T, o Options, body []byte) (*Transaction, *wire.View) {
	t.Helper()
	m, err := sessioncache.New(sessioncache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := m.Acquire(t.Context(), sessioncache.Key{ID: "s"})
	t.Cleanup(func() { m.Release(s) })
	v, err := wire.Parse(wire.Gemini, body, nil)
	if err != nil {
		t.Fatal(err)
	}
	v.Address("/v1beta/models/gemini-3.1-pro:streamGenerateContent", "")
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	p := New(o, func(model string, at time.Time) pricing.Rules { return pricing.Lookup("", model, at) })
	x := p.Begin(v, s, now)
	if x.Prompt.Err != nil {
		t.Fatal(x.Prompt.Err)
	}
	return x, v
}

// Responses belong to calls by id, or by order and name if either side has no id.
func TestGeminiPairs(t *testing.T) {
	for name, body := range map[string][]byte{
		"without ids": geminiRequest(
			model(functionCall("read_file", "", `{"n":0}`, "")+","+functionCall("glob", "", `{"n":1}`, "")+","+
				functionCall("read_file", "", `{"n":2}`, "")) +
				tools(functionResponse("glob", "", "1")+","+functionResponse("read_file", "", "0")+","+functionResponse("read_file",
					"", "2")) +
				model(functionCall("read_file", "", `{"n":3}`, "")) + tools(functionResponse("read_file", "", "3"))),
		"by id": geminiRequest(
			model(functionCall("read_file", "a", `{"n":0}`, "")+","+functionCall("read_file", "b", `{"n":1}`, "")) +
				tools(functionResponse("read_file", "b", "1")+","+functionResponse("read_file", "a", "0"))),
		"ids of the client's own": geminiRequest(
			model(functionCall("read_file", "", `{"n":0}`, "")+","+functionCall("read_file", "", `{"n":1}`, "")) +
				tools(functionResponse("read_file", "read_file-1-a", "0")) + `,{"role":"function","parts":[` +
				functionResponse("read_file", "read_file-2-b", "1") + `]}`),
	} {
		x, v := begin(t, Options{}, body)
		pairs := 0
		for i := range x.req.Blocks {
			b := &x.req.Blocks[i]
			if b.Kind != wire.KindToolResult {
				continue
			}
			j := content.CallOf(x.req.View, i)
			if j < 0 || v.Text(x.req.Blocks[j].Body) != `{"n":`+strings.Trim(v.Text(b.Body), `"`)+`}` {
				t.Errorf("%s: result %s is paired with block %d", name, v.Text(b.Span), j)
			}
			pairs++
		}
		if pairs < 2 {
			t.Errorf("%s: %d pairs", name, pairs)
		}
	}
	x, _ := begin(t, Options{}, geminiRequest(model(functionCall("a", "", `{}`, ""))+
		tools(functionResponse("b", "", "x"))))
	if j := content.CallOf(x.req.View, 2); j >= 0 {
		t.Errorf("a response of another name is paired with block %d", j)
	}
}

// The tools of Gemini CLI are classified.
func TestGeminiTools(t *testing.T) {
	x, _ := begin(t, Options{}, geminiRequest(
		model(functionCall("read_file", "", `{"absolute_path":"/a.go"}`, `,"thoughtSignature":"c2ln"`)+","+
			functionCall("read_file", "", `{"file_path":"/a.go","limit":9}`, "")+","+
			functionCall("replace", "", `{"file_path":"/a.go","old_string":"a","new_string":"b"}`, "")+","+
			functionCall("write_file", "", `{"file_path":"/b.go","content":"c"}`, "")+","+
			functionCall("run_shell_command", "", `{"command":"make test"}`, "")+","+
			functionCall("search_file_content", "", `{"pattern":"x"}`, "")+","+
			functionCall("glob", "", `{"pattern":"*.go"}`, "")+","+functionCall("list_directory", "", `{"dir_path":"/d"}`, "")+
			","+functionCall("write_todos", "", `{}`, ""))))
	want := []sessioncache.BlockState{
		{Class: sessioncache.ClassRead, Path: content.Hash("/a.go"), Whole: true},
		{Class: sessioncache.ClassRead, Path: content.Hash("/a.go")},
		{Class: sessioncache.ClassEdit, Path: content.Hash("/a.go")},
		{Class: sessioncache.ClassWrite, Path: content.Hash("/b.go")},
		{Class: sessioncache.ClassCommand},
		{Class: sessioncache.ClassSearch},
		{Class: sessioncache.ClassSearch},
		{Class: sessioncache.ClassSearch},
		{Class: sessioncache.ClassOther},
	}
	for i, w := range want {
		if got := x.req.States[1+i]; got.Class != w.Class || got.Path != w.Path || got.Whole != w.Whole {
			t.Errorf("call %d: class %d, path %d, whole %t; want %+v", i, got.Class, got.Path, got.Whole, w)
		}
	}
}

// A repeated command with the same output, except for the process group, becomes a pointer.
func TestGeminiRerun(t *testing.T) {
	output := func(group int) string {
		return fmt.Sprintf("Command: make\nDirectory: (root)\nOutput: %s\nProcess Group PGID: %d",
			strings.Repeat(long("make"), 20), group)
	}
	call := functionCall("run_shell_command", "", `{"command":"make"}`, `,"thoughtSignature":"c2ln"`)
	body := geminiRequest(model(call) + tools(functionResponse("run_shell_command", "", output(17))) + model(call) +
		tools(functionResponse("run_shell_command", "", output(4711))))
	x, _ := begin(t, Options{}, body)
	if got := string(x.Prompt.Body.Bytes()); !strings.Contains(got, "PGID: 17") || strings.Contains(got, "PGID: 4711") ||
		!strings.Contains(got, "same content as the result of run_shell_command make above, ") {
		t.Errorf("sent %s", got)
	}
}

// With every edit allowed, signed parts and images beside a response stay, and a retry sends the
// same bytes.
func TestGeminiEager(t *testing.T) {
	zero, one := 0, 1
	o := Options{
		Policy: Eager, Zones: Zones{Frozen: &zero, Hot: &one, MinMessages: &zero},
		StripThinking: StripThinking{Mode: stage.On}, StripNarration: StripNarration{Mode: stage.On},
	}
	signed := functionCall("write_file", "", `{"file_path":"/a.go","content":`+string(content.Quote(long("a")))+`}`,
		`,"thoughtSignature":"c2ln"`)
	const said, thought = `{"text":"Let me look.","thoughtSignature":"c2lo"}`, `{"text":"Hm.","thought":true}`
	const image = `"parts":[{"inlineData":{"mimeType":"image/png","data":"aGk="}}]`
	object := `{"functionResponse":{"name":"stat","response":{"lines":[` +
		strings.Repeat(`"many lines of an answer that is an object",`, 40) + `0]}}}`
	beside := strings.Replace(functionResponse("shot", "", long("b")), `"name"`, image+`,"name"`, 1)
	body := geminiRequest(model(thought+","+said+`,{"text":"Let me write it."},`+signed+","+functionCall("stat", "", `{}`,
		"")+","+functionCall("shot", "", `{}`, "")) +
		tools(functionResponse("write_file", "", long("c"))+","+object+","+beside) +
		model(`{"text":"Done."}`) + tools(`{"text":"more"}`) + model(`{"text":"Yes."}`) + tools(`{"text":"thanks"}`))
	x, v := begin(t, o, body)
	for _, kept := range []string{
		signed, said, image, `"name":"shot","response":{"output":"`,
		`{"name":"stat","response":{"output":"`,
	} {
		if !bytes.Contains(x.Prompt.Body.Bytes(), []byte(kept)) {
			t.Errorf("%s is lost in %s", kept, x.Prompt.Body.Bytes())
		}
	}
	for _, gone := range []string{
		thought, `{"text":"Let me write it."}`, "c line 30", "b line 30",
		"many lines of an answer that is an object\",\"many",
	} {
		if bytes.Contains(x.Prompt.Body.Bytes(), []byte(gone)) {
			t.Errorf("%s is left in %s", gone, x.Prompt.Body.Bytes())
		}
	}
	w, err := wire.Parse(wire.Gemini, x.Prompt.Body.Bytes(), nil)
	if err != nil || len(w.Blocks) != len(v.Blocks)-2 {
		t.Errorf("%v", err)
	}
	if again, _ := begin(t, o, body); !bytes.Equal(again.Prompt.Body.Bytes(), x.Prompt.Body.Bytes()) {
		t.Error("a second process does something else")
	}
}
