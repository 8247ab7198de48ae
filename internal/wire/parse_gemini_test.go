// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func TestDetectGemini(t *testing.T) {
	for _, c := range []struct {
		path, base, model string
		stream            bool
	}{
		{"/v1beta/models/gemini-3.1-pro:generateContent", "/v1beta/models/", "gemini-3.1-pro", false},
		{"/v1beta/models/gemini-3.1-pro:streamGenerateContent", "/v1beta/models/", "gemini-3.1-pro", true},
		{"/team/v1/models/m:streamGenerateContent", "/team/v1/models/", "m", true},
		{
			"/v1/projects/p/locations/l/publishers/google/models/m@001:generateContent",
			"/v1/projects/p/locations/l/publishers/google/models/", "m@001", false,
		},
		{"/v1beta/tunedModels/mine:generateContent", "/v1beta/tunedModels/", "mine", false},
		{"/v1/projects/p/locations/l/endpoints/123:generateContent", "/v1/projects/p/locations/l/endpoints/", "123", false},
		{"/v1beta/models/m:countTokens", "", "", false},
		{"/v1beta/models/m:embedContent", "", "", false},
		{"/v1beta/models/m:batchGenerateContent", "", "", false},
		{"/v1beta/models/:generateContent", "", "", false},
		{"/v1beta/models/m", "", "", false},
		{"/v1internal:generateContent", "", "", false}, // Code Assist wraps the request
		{"/v1beta/m:generateContent", "", "", false},
	} {
		f, ok := wire.Detect(http.MethodPost, c.path)
		if ok != (c.base != "") || ok && f != wire.Gemini {
			t.Errorf("%s: %q, %t", c.path, f, ok)
		}
		base, model, stream, _ := wire.Gemini.Codec().(wire.Addresser).Address(c.path)
		if base != c.base || model != c.model || stream != c.stream {
			t.Errorf("%s: base %q, model %q, stream %t", c.path, base, model, stream)
		}
	}
	if _, ok := wire.Detect(http.MethodGet, "/v1beta/models/m:generateContent"); ok {
		t.Error("a GET was taken for a request")
	}
}

// geminiRequest has the shapes that clients send: Gemini CLI uses the first spelling of members,
// other clients the second.
const geminiRequest = `{"contents":[
 {"role":"user","parts":[{"text":"This is the environment."}]},
 {"role":"user","parts":[{"text":"hi"},{"inlineData":{"mimeType":"image/png","data":"aGk="}},{"file_data":{"file_uri":"gs://x"}}]},
 {"role":"model","parts":[{"text":"hm","thought":true},{"text":"Let me look."},
  {"functionCall":{"id":"c1","name":"read_file","args":{"file_path":"a.go"}},"thoughtSignature":"c2ln"},
  {"functionCall":{"name":"glob","args":{"pattern":"*"}}},
  {"thoughtSignature":"skip_thought_signature_validator","function_call":{"name":"now"}}]},
 {"role":"user","parts":[{"functionResponse":{"id":"c1","name":"read_file","response":{"output":"package a"}}},
  {"functionResponse":{"name":"glob","response":{"error":"no \"x\""}}},
  {"function_response":{"name":"now","response":{"hour":7},"parts":[{"inlineData":{"mimeType":"image/png","data":"aGk="}}]}}]},
 {"role":"model","parts":[{"executableCode":{"language":"PYTHON","code":"1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK"}},{"text":"","thoughtSignature":"c2ln"}]},
 {"parts":{"text":"go on"}},
 {"role":"function","parts":[{"functionResponse":{"name":"x"}}]},
 {"role":"model","parts":[{"novelty":1},{"text":1},{"text":"a","inlineData":{"mimeType":"application/pdf"}},{"inlineData":{"mimeType":"application/pdf","data":""}}]}],
 "systemInstruction":{"role":"user","parts":[{"text":"sys"}]},
 "tools":[{"functionDeclarations":[{"name":"read_file","parametersJsonSchema":{}},{"name":"glob"}]},{"googleSearch":{}}],
 "toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},
 "generationConfig":{"temperature":1,"maxOutputTokens":7,"thinkingConfig":{"includeThoughts":true},"responseJsonSchema":{"type":"object"}}}`

func TestParseGemini(t *testing.T) {
	v := mustParse(t, wire.Gemini, geminiRequest)
	want := `0/0/tool_def||read_file||
0/0/tool_def||glob||
0/0/tool_def||||
1/1/text|||"sys"|
2/2/text|||"This is the environment."|
2/2/text|||"hi"|
2/2/image||||
2/2/other||||
2/3/thinking|||"hm"|
2/3/text|||"Let me look."|
2/3/tool_use|c1|read_file|{"file_path":"a.go"}||1000000
2/3/tool_use||glob|{"pattern":"*"}|
2/3/tool_use||now||
2/2/tool_result|c1|read_file|"package a"|
2/2/tool_result||glob|"no \"x\""||00001
2/2/tool_result||now|{"hour":7}||01000
2/3/server_tool||||
2/3/server_tool||||
2/3/text|||""||1010000
2/2/text|||"go on"|
2/4/tool_result||x|||10000
2/3/other||||
2/3/other||||
2/3/other||||
2/3/document||||
`
	if got := outline(v); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if v.Tools != 3 || v.System != 4 || v.Reply.MaxTokens != 7 ||
		v.Text(v.Reply.ToolChoice) != `{"functionCallingConfig":{"mode":"AUTO"}}` ||
		v.Text(v.Reply.Thinking) != `{"includeThoughts":true}` || v.Text(v.Reply.OutputConfig) != `{"type":"object"}` {
		t.Errorf("settings: %+v", v)
	}
	if v.Model != "" || v.Reply.Stream {
		t.Errorf("the body says nothing of model %q and stream %t", v.Model, v.Reply.Stream)
	}
	v.Address("/v1beta/models/gemini-3.1-pro:streamGenerateContent", "")
	if v.Model != "gemini-3.1-pro" || !v.Reply.Stream {
		t.Errorf("the path says model %q and stream %t", v.Model, v.Reply.Stream)
	}
	snake := strings.NewReplacer("systemInstruction", "system_instruction", "functionDeclarations",
		"function_declarations", "toolConfig", "tool_config",
		"generationConfig", "generation_config", "maxOutputTokens", "max_output_tokens", "thinkingConfig", "thinking_config",
		"responseJsonSchema", "response_json_schema",
		"functionCall", "function_call", "functionResponse", "function_response", "thoughtSignature", "thought_signature",
		"inlineData", "inline_data", "mimeType", "mime_type",
		"executableCode", "executable_code", "codeExecutionResult", "code_execution_result").Replace(geminiRequest)
	if got := outline(mustParse(t, wire.Gemini, snake)); got != want {
		t.Errorf("with names of the second form\n%swant\n%s", got, want)
	}
}

func TestParseGeminiRefuses(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       error
	}{
		{"no contents", `{"generationConfig":{}}`, wire.ErrShape},
		{"contents empty", `{"contents":[]}`, wire.ErrShape},
		{"contents an object", `{"contents":{"parts":[{"text":"a"}]}}`, wire.ErrSyntax},
		{
			"contents twice", `{"contents":[{"parts":[{"text":"a"}]}],"contents":[{"parts":[{"text":"b"}]}]}`,
			wire.ErrDuplicate,
		},
		{
			"system under two names",
			`{"systemInstruction":{"parts":[]},"system_instruction":{"parts":[]},"contents":[{"parts":[]}]}`, wire.ErrDuplicate,
		},
	} {
		if _, err := wire.Parse(wire.Gemini, []byte(c.body), nil); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	for body, partial := range map[string]bool{
		`{"contents":[{"parts":[{"text":"a"}]}],"cachedContent":null,"safetySettings":[]}`:          false,
		`{"cachedContent":"cachedContents/x","contents":[{"parts":[{"text":"a"}]}]}`:                true,
		`{"contents":[{"parts":[{"text":"a"}]}],"cached_content":"cachedContents/x","labels":null}`: true,
	} {
		if v := mustParse(t, wire.Gemini, body); v.Conversation.Partial != partial {
			t.Errorf("%s: a part of the prompt is stored: %t", body, v.Conversation.Partial)
		}
	}
	// A tool result may have any keys.
	v := mustParse(t, wire.Gemini,
		`{"contents":[{"role":"user","parts":[{"functionResponse":{"name":"a","response":{"outp\u0075t":"a",`+
			`"output":"b"}}}]}]}`)
	if got := v.Text(v.Blocks[0].Body); got != `{"outp\u0075t":"a","output":"b"}` {
		t.Errorf("the response is replaced in part: %s", got)
	}
}

func TestHashGemini(t *testing.T) {
	user := func(part string) string { return `{"contents":[{"role":"user","parts":[` + part + `]}]}` }
	model := func(part string) string { return `{"contents":[{"role":"model","parts":[` + part + `]}]}` }
	const call, skipped = `"functionCall":{"name":"a","args":{}}`, `"thoughtSignature":"skip_thought_signature_validator"`
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{"lone part", user(`{"text":"a"}`), `{"contents":[{"parts":{"text":"a"}}]}`, true},
		{"names of two forms", user(`{"inlineData":{"data":""}}`), user(`{"inline_data":{"data":""}}`), true},
		{"space between members", user(`{"text":"a"}`), user(` { "text" : "a" } `), true},
		{"other role", user(`{"text":"a"}`), model(`{"text":"a"}`), false},
		{"thought", model(`{"text":"a","thought":true}`), model(`{"text":"a"}`), false},
		{"not a thought", model(`{"text":"a","thought":false}`), model(`{"text":"a"}`), true},
		{"nothing in a signature's place", model(`{` + call + `}`), model(`{` + call + `,` + skipped + `}`), true},
		{"a signature", model(`{` + call + `}`), model(`{` + call + `,"thoughtSignature":"c2ln"}`), false},
		{
			"another signature", model(`{` + call + `,"thoughtSignature":"c2ln"}`),
			model(`{` + call + `,"thoughtSignature":"c2lo"}`), false,
		},
		{
			"another id", model(`{"functionCall":{"id":"1","name":"a"}}`), model(`{"functionCall":{"id":"2","name":"a"}}`),
			false,
		},
		{
			"another response", user(`{"functionResponse":{"name":"a","response":{"output":"x"}}}`),
			user(`{"functionResponse":{"name":"a","response":{"output":"y"}}}`), false,
		},
	} {
		a, b := mustParse(t, wire.Gemini, c.a), mustParse(t, wire.Gemini, c.b)
		if (a.Blocks[0].Hash == b.Blocks[0].Hash) != c.same {
			t.Errorf("%s: same = %t, want %t", c.name, !c.same, c.same)
		}
	}
}

func TestSpliceGemini(t *testing.T) {
	v := mustParse(t, wire.Gemini, geminiRequest)
	at := func(text string) int {
		for i := range v.Blocks {
			if strings.Contains(v.Text(v.Blocks[i].Span), text) && v.Blocks[i].Message >= 0 {
				return i
			}
		}
		t.Fatalf("no block holds %s", text)
		return -1
	}
	stub := []byte(`"stub"`)
	for _, c := range []struct {
		name     string
		edit     wire.Edit
		old, new string // "" = refused
	}{
		{"output", wire.Edit{at("package a"), wire.OpReplace, stub}, `"package a"`, `"stub"`},
		{"error", wire.Edit{at(`no \"x\"`), wire.OpReplace, stub}, `"no \"x\""`, `"stub"`},
		{"whole response", wire.Edit{at(`{"hour":7}`), wire.OpReplace, stub}, `{"hour":7}`, `{"output":"stub"}`},
		{
			"whole response by an object",
			wire.Edit{at(`{"hour":7}`), wire.OpReplace, []byte(`{"a":1}`)},
			`{"hour":7}`,
			`{"a":1}`,
		},
		{"args", wire.Edit{at(`"pattern"`), wire.OpReplace, []byte(`{}`)}, `{"pattern":"*"}`, `{}`},
		{"thought", wire.Edit{at("hm"), wire.OpRemove, nil}, `{"text":"hm","thought":true},`, ``},
		{"narration", wire.Edit{at("Let me"), wire.OpRemove, nil}, "{\"text\":\"Let me look.\"},\n  ", ``},
		{"signed args", wire.Edit{at(`"c1"`), wire.OpReplace, []byte(`{}`)}, "", ""},
		{"signed text", wire.Edit{at(`{"text":"","thoughtSignature"`), wire.OpRemove, nil}, "", ""},
		{"response", wire.Edit{at("package a"), wire.OpRemove, nil}, "", ""},
		{"no response", wire.Edit{at(`{"name":"x"}`), wire.OpReplace, stub}, "", ""},
		{"lone part", wire.Edit{at("go on"), wire.OpRemove, nil}, "", ""},
		{"marker", wire.Edit{at("hi"), wire.OpMark, []byte(`{}`)}, "", ""},
	} {
		got, err := v.Splice([]wire.Edit{c.edit})
		if c.old == "" {
			if !errors.Is(err, wire.ErrEdit) {
				t.Errorf("%s: got %s, %v", c.name, got, err)
			}
			continue
		}
		if want := strings.Replace(geminiRequest, c.old, c.new, 1); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v\nwant %s", c.name, got, err, want)
		}
	}
	checkSplice(t, v)
}

// The first parse of a grown conversation recognises everything but the first turn and the new
// messages; later parses recognise the first turn, too.
func TestRecallGemini(t *testing.T) {
	head := geminiRequest[:strings.Index(geminiRequest, `,
 {"parts":{"text":"go on"}}`)]
	tail := geminiRequest[strings.Index(geminiRequest, `],
 "systemInstruction"`):]
	known := mustParse(t, wire.Gemini, head+tail).Known()
	for _, fresh := range []int{10, 6} {
		v, err := wire.Parse(wire.Gemini, []byte(geminiRequest), func(wire.Hash) *wire.Known { return known })
		if err != nil {
			t.Fatal(err)
		}
		sameViews(t, v, mustParse(t, wire.Gemini, geminiRequest))
		if want := len(v.Blocks) - fresh; v.Recalled != want {
			t.Errorf("recalled %d of %d blocks, want %d", v.Recalled, len(v.Blocks), want)
		}
	}
}

func FuzzSpliceGemini(f *testing.F) {
	f.Add([]byte(geminiRequest))
	f.Add([]byte(`{"contents":[{"parts":{"functionResponse":{"name":"a","response":{"content":"\"\\"}}},` +
		`"role":"user"}],"system_instruction":{"parts":{"text":"s"}},"tools":[{"code_execution":{}}]}`))
	f.Add([]byte(`{ "contents" : [ { "parts" : [ ] } , { "role" : null } ] , "generation_config" : 1 }`))
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := wire.Parse(wire.Gemini, body, nil)
		if err != nil {
			return
		}
		checkSplice(t, v)
		again, err := wire.Parse(wire.Gemini, body, func(wire.Hash) *wire.Known { return v.Known() })
		if err != nil {
			t.Fatalf("not readable a second time: %v", err)
		}
		sameViews(t, v, again)
	})
}
