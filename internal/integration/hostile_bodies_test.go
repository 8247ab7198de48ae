// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// dialect is a format in which hostile values are said.
type dialect struct {
	name, path string
	native     string // the site, besides native, that speaks it
	body       string // of CONTENT, INPUT, RESULT and SCHEMA
	text       bool   // INPUT is JSON in a string
}

var dialects = []dialect{
	{
		"anthropic", "/v1/messages", "hosted",
		`{"model":"claude-opus-4-6","max_tokens":100,"tools":[{"name":"Read","input_schema":SCHEMA}],` +
			`"messages":[{"role":"user","content":CONTENT},` +
			`{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Read","input":INPUT}]},{"role":"user",` +
			`"content":[{"type":"tool_result","tool_use_id":"toolu_1","content":RESULT}]}]}`, false,
	},
	{
		"chat", "/v1/chat/completions", "box",
		`{"model":"m","tools":[{"type":"function","function":{"name":"Read","parameters":SCHEMA}}],` +
			`"messages":[{"role":"user","content":CONTENT},` +
			`{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"Read",` +
			`"arguments":INPUT}}]},{"role":"tool","tool_call_id":"call_1","content":RESULT}]}`, true,
	},
	{
		"responses", "/v1/responses", "responses",
		`{"model":"m","tools":[{"type":"function","name":"Read","parameters":SCHEMA}],"input":[{"role":"user",` +
			`"content":CONTENT},` +
			`{"type":"function_call","call_id":"call_1","name":"Read","arguments":INPUT},{"type":"function_call_output",` +
			`"call_id":"call_1","output":RESULT}]}`, true,
	},
	{
		"gemini", "/v1beta/models/gemini-3-pro:generateContent", "gemini",
		`{"tools":[{"functionDeclarations":[{"name":"Read","parametersJsonSchema":SCHEMA}]}],"contents":[{"role":"user",` +
			`"parts":[{"text":CONTENT}]},` +
			`{"role":"model","parts":[{"functionCall":{"name":"Read","args":INPUT}}]},{"role":"user",` +
			`"parts":[{"functionResponse":{"name":"Read","response":{"output":RESULT}}}]}]}`, false,
	},
}

// say puts a value into a body, in the place of a name.
func (d *dialect) say(name, value string) string {
	input := `{}`
	if d.text {
		input = `"{}"`
	}
	parts := map[string]string{"CONTENT": `"hi"`, "INPUT": input, "RESULT": `"ok"`, "SCHEMA": `{"type":"object"}`}
	parts[name] = value
	var b strings.Builder
	for rest := d.body; ; {
		at, next := len(rest), ""
		for part := range parts {
			if i := strings.Index(rest, part); i >= 0 && i < at {
				at, next = i, part
			}
		}
		b.WriteString(rest[:at])
		if next == "" {
			return b.String()
		}
		b.WriteString(parts[next])
		rest = rest[at+len(next):]
	}
}

// generator makes a hostile body of about n bytes.
type generator struct {
	name   string
	coding string
	make   func(t *testing.T, d *dialect, n int) string
}

// body makes a body that is no longer than told, but for a little.
func (g *generator) body(t *testing.T, d *dialect, n int) string {
	body := g.make(t, d, n)
	if len(body) > n+n/64 && n > 1<<16 { // values in strings, which escapes lengthen
		body = g.make(t, d, n*n/len(body))
	}
	return body
}

func repeated(open, unit, end string, n int) string {
	return open + strings.Repeat(unit, max(n/len(unit), 1)) + end
}

// part makes generators of a value in one place.
func part(place string, value func(n int) string) func(*testing.T, *dialect, int) string {
	return func(_ *testing.T, d *dialect, n int) string { return d.say(place, value(n)) }
}

// listed is a list of one element over and over.
func listed(element string) func(int) string {
	return func(n int) string { return repeated("["+element, ","+element, "]", n) }
}

// zipped packs what another generator makes, as often as told.
func zipped(times int, inner func(*testing.T, *dialect, int) string) func(*testing.T, *dialect, int) string {
	return func(t *testing.T, d *dialect, n int) string {
		body := inner(t, d, n)
		for range times {
			body = gzipped(t, body)
		}
		return body
	}
}

func zstdOf(
	inner func(*testing.T, *dialect, int) string, options ...zstd.EOption,
) func(*testing.T, *dialect, int) string {
	return func(t *testing.T, d *dialect, n int) string {
		return compress(t, []byte(inner(t, d, n)), func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w, options...)
			if err != nil {
				t.Fatal(err)
			}
			return z
		})
	}
}

var (
	longText   = part("CONTENT", func(n int) string { return repeated(`"`, "x", `"`, n) })
	manyBlocks = part("CONTENT", listed(`{}`))
	bracketsIn = func(open string) func(int) string {
		return func(n int) string { return quoted(open + strings.Repeat("[", n)) }
	}
)

// asInput says a text as the input of a call: a string, or a member of an object.
func asInput(text func(n int) string) func(*testing.T, *dialect, int) string {
	return func(_ *testing.T, d *dialect, n int) string {
		if d.text {
			return d.say("INPUT", text(n))
		}
		return d.say("INPUT", `{"file_path":`+text(n)+`}`)
	}
}

// limit is a little less than the number of entries that are read.
const limit = wire.MaxElements - 32

// pair is a call of a tool and its result, in the words of each format.
var pairs = map[string][2]string{
	"anthropic": {
		`{"type":"tool_use","id":"CALL","name":"Read","input":{}}`,
		`{"type":"tool_result","tool_use_id":"RESULT","content":"ok"}`,
	},
	"chat": {
		`{"id":"CALL","type":"function","function":{"name":"Read","arguments":"{}"}}`,
		`{"role":"tool","tool_call_id":"RESULT","content":"ok"}`,
	},
	"responses": {
		`{"type":"function_call","call_id":"CALL","name":"Read","arguments":"{}"}`,
		`{"type":"function_call_output","call_id":"RESULT","output":"ok"}`,
	},
	"gemini": {
		`{"functionCall":{"id":"CALL","name":"Read","args":{}}}`,
		`{"functionResponse":{"id":"RESULT","name":"Read","response":{"output":"ok"}}}`,
	},
}

// calls makes calls at once, and then their results, whose ids result gives; what say
// holds is the input of all calls and the text of all results, in JSON.
func calls(result func(i, of int) string, say ...string) func(*testing.T, *dialect, int) string {
	return func(_ *testing.T, d *dialect, n int) string {
		pair := pairs[d.name]
		if len(say) > 0 {
			input := say[0]
			if d.text {
				input = quoted(input)[1:]
				input = input[:len(input)-1]
			}
			pair = [2]string{strings.Replace(pair[0], "{}", input, 1), strings.Replace(pair[1], `"ok"`, `"`+say[1]+`"`, 1)}
		}
		count := max(min(n/(len(pair[0])+len(pair[1])), limit/2), 1) // as many as are read
		if len(say) > 0 {                                            // and as long as that lets them be
			room := n/count - len(pair[0]) - len(pair[1])
			pair[1] = strings.Replace(pair[1], say[1], strings.Repeat(say[1], 1+max(room/len(say[1]), 0)), 1)
		}
		var calls, results []string
		for i := range count {
			number := strings.NewReplacer("CALL", fmt.Sprint("call_", i), "RESULT", result(i, count), "NUMBER", fmt.Sprint(i))
			calls = append(calls, number.Replace(pair[0]))
			results = append(results, number.Replace(pair[1]))
		}
		open, between, end := `{"role":"assistant","content":[`, `]},{"role":"user","content":[`, "]}"
		switch d.name {
		case "chat":
			open, between, end = `{"role":"assistant","tool_calls":[`, "]},", ""
		case "responses":
			open, between, end = "", ",", ""
		case "gemini":
			open, between, end = `{"role":"model","parts":[`, `]},{"role":"user","parts":[`, "]}"
		}
		body := d.say("CONTENT", `"hi"`)
		at := strings.LastIndex(body, "]")
		return body[:at] + "," + open + strings.Join(calls, ",") + between + strings.Join(results, ",") + end + body[at:]
	}
}

var generators = []generator{
	{"deep arrays", "", part("CONTENT", func(n int) string {
		return strings.Repeat("[", n/2) +
			strings.Repeat("]", n/2)
	})},
	{"deep objects", "", part("SCHEMA", func(n int) string {
		return strings.Repeat(`{"a":`, n/6) + "1" +
			strings.Repeat("}", n/6)
	})},
	{"depth at the bound", "", part("SCHEMA", func(n int) string {
		// as many values as are read
		deep := strings.Repeat(`{"what stands deeper than that":`, 500) + "{}" + strings.Repeat("}", 500)
		// A choice at the top of a schema is rewritten for OpenAI.
		return repeated(`{"properties":{"p":{"anyOf":[`+deep, ","+deep, "]}}}", n)
	})},
	{"brackets in an input", "", asInput(bracketsIn(`{"output":`))},
	{"brackets in a result", "", part("RESULT", bracketsIn(`{"output":`))},
	{"nesting in a result", "", part("RESULT", func(n int) string {
		return quoted(`{"output":"x","metadata":` + strings.Repeat("[", n/2) + strings.Repeat("]", n/2) + "}")
	})},
	{
		"many keys in an input", "",
		asInput(func(n int) string { return quoted(repeated(`{"output":"x"`, `,"k":1`, "}", n)) }),
	},
	{"many keys in a result", "", part("RESULT",
		func(n int) string { return quoted(repeated(`{"output":"x"`, `,"k":1`, "}", n)) })},
	{"many keys", "", part("SCHEMA", func(n int) string { return repeated(`{"type":"object"`, `,"k":1`, "}", n) })},
	{"many keys of a message", "", func(_ *testing.T, d *dialect, n int) string {
		return strings.Replace(d.say("CONTENT", `"hi"`), `{"role":"user"`, repeated(`{"role":"user"`, `,"k":1`, "", n), 1)
	}},
	{"many members", "", func(_ *testing.T, d *dialect, n int) string {
		return repeated(`{"k":1`, `,"k":1`, ",", n) + d.say("CONTENT", `"hi"`)[1:]
	}},
	{"many blocks", "", manyBlocks},
	{"many texts", "", part("CONTENT", listed(`{"type":"text","text":"a"}`))},
	{"many parts of a result", "", part("RESULT", listed(`{"type":"text","text":"a"}`))},
	{"many empty parts of a result", "", part("RESULT", listed(`{}`))},
	{"numbers for a result", "", part("RESULT", listed(`1`))},
	{"many messages", "", func(_ *testing.T, d *dialect, n int) string {
		m := map[string]string{"gemini": `{"role":"user","parts":[{"text":"a"}]},`}[d.name]
		if m == "" {
			m = `{"role":"user","content":"a"},`
		}
		return strings.Replace(d.say("CONTENT", `"hi"`), `[{"role":"user"`, repeated("[", m, `{"role":"user"`, n), 1)
	}},
	{"as many messages as are read", "", func(_ *testing.T, d *dialect, n int) string {
		m := map[string]string{"gemini": `{"role":"user","parts":[{"text":"a"}]},{"role":"model",` +
			`"parts":[{"text":"b"}]},`}[d.name]
		if m == "" {
			m = `{"role":"user","content":"a"},{"role":"assistant","content":"b"},`
		}
		return strings.Replace(d.say("CONTENT", `"hi"`), `[{"role":"user"`,
			repeated("[", m, `{"role":"user"`, min(n, limit/2*len(m))), 1)
	}},
	{"many tools", "", func(_ *testing.T, d *dialect, n int) string {
		tool := map[string]string{
			"anthropic": `{"name":"a","input_schema":{}},`, "chat": `{"type":"function","function":{"name":"a"}},`,
			"responses": `{"type":"function","name":"a","parameters":{}},`, "gemini": `{"functionDeclarations":[{"name":"a"}]},`,
		}[d.name]
		return strings.Replace(d.say("CONTENT", `"hi"`), `"tools":[`, repeated(`"tools":[`, tool, "", n), 1)
	}},
	{"tools of many names", "", func(_ *testing.T, d *dialect, n int) string {
		tool := map[string]string{
			"anthropic": `{"name":"tool_%d","input_schema":{}},`, "chat": `{"type":"function","function":{"name":"tool_%d"}},`,
			"responses": `{"type":"function","name":"tool_%d","parameters":{}},`,
			"gemini":    `{"functionDeclarations":[{"name":"tool_%d"}]},`,
		}[d.name]
		var tools strings.Builder
		for i := range min(n/len(tool), limit) {
			fmt.Fprintf(&tools, tool, i)
		}
		return strings.Replace(d.say("CONTENT", `"hi"`), `"tools":[`, `"tools":[`+tools.String(), 1)
	}},
	{"many texts of an answer", "", func(_ *testing.T, d *dialect, n int) string {
		text := strings.Repeat("x", 1000)
		return map[string]string{
			"anthropic": repeated(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"},`+
				`{"role":"assistant","content":[`, `{"type":"text","text":"`+text+`"},`,
				`{"type":"text","text":"x"}]},{"role":"user","content":"hi"}]}`, n),
			"chat": repeated(`{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[`,
				`{"type":"text","text":"`+text+`"},`, `{"type":"text","text":"x"}]},{"role":"user","content":"hi"}]}`, n),
			"responses": repeated(`{"model":"m","input":[{"role":"user","content":"hi"},{"role":"assistant","content":[`,
				`{"type":"output_text","text":"`+text+`"},`, `{"type":"output_text","text":"x"}]},{"role":"user","content":"hi"}]}`,
				n),
			"gemini": repeated(`{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[`,
				`{"text":"`+text+`"},`, `{"text":"x"}]},{"role":"user","parts":[{"text":"hi"}]}]}`, n),
		}[d.name]
	}},
	{"many reads of one file", "", calls(func(i, _ int) string { return fmt.Sprint("call_", i) },
		`{"file_path":"/a/b.go"}`, strings.Repeat(`    12\tfunc main() { fmt.Println(1, 2) }\n`, 20))},
	{"many reads of a file that grows", "", calls(func(i, _ int) string { return fmt.Sprint("call_", i) },
		`{"file_path":"/a/b.go"}`, strings.Repeat(`    12\\tfunc main() { fmt.Println(1, 2) }\\n`, 20)+`line NUMBER\\n`)},
	{"many reads of many files", "", calls(func(i, _ int) string { return fmt.Sprint("call_", i) },
		`{"file_path":"/a/NUMBER.go"}`, strings.Repeat(`    12\\tfunc main() { fmt.Println(1, 2) }\\n`, 20)+
			`line NUMBER\\n`)},
	{"many calls at once", "", calls(func(i, _ int) string { return fmt.Sprint("call_", i) })},
	{"results in reverse", "", calls(func(i, of int) string { return fmt.Sprint("call_", of-1-i) })},
	{"results of no call", "", calls(func(i, _ int) string { return fmt.Sprint("other_", i) })},
	{"results without ids", "", calls(func(int, int) string { return "" })},
	{"long text", "", longText},
	{"long key", "", part("SCHEMA", func(n int) string { return repeated(`{"`, "k", `":1}`, n) })},
	{"many escapes", "", part("CONTENT", func(n int) string { return repeated(`"`, `\n\"\\`, `"`, n) })},
	{"escaped NULs", "", part("RESULT", func(n int) string { return repeated(`"`, `\u0000`, `"`, n) })},
	{"NULs", "", part("CONTENT", func(n int) string { return repeated(`"`, "\x00", `"`, n) })},
	{"only NULs", "", func(_ *testing.T, _ *dialect, n int) string { return strings.Repeat("\x00", n) }},
	{"long number", "", part("SCHEMA", func(n int) string { return repeated(`{"minimum":1`, "0", "}", n) })},
	{"long exponent", "", part("SCHEMA", func(n int) string { return repeated(`{"minimum":1e`, "9", "}", n) })},
	{"duplicate keys", "", func(_ *testing.T, d *dialect, n int) string {
		return strings.Replace(d.say("CONTENT", `"hi"`), `{"role":"user"`,
			repeated(`{"role":"user"`, `,"role":"user"`, "", n), 1)
	}},
	{"half surrogates", "", part("RESULT", func(n int) string { return repeated(`"`, `\ud83d`, `"`, n) })},
	{"invalid UTF-8", "", part("RESULT", func(n int) string { return repeated(`"`, "\xff\xc3", `"`, n) })},
	{"empty lines", "", part("RESULT", func(n int) string { return repeated(`"`, `\n`, `"`, n) })},
	{"carriage returns", "", part("RESULT", func(n int) string { return repeated(`"`, `50%\r`, `"`, n) })},
	{"terminal escapes", "", part("RESULT", func(n int) string { return repeated(`"`, `\u001b[31mx`, `"`, n) })},
	{"short lines", "", part("RESULT", func(n int) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, `%d\n`, i)
		}
		return `"` + b.String() + `"`
	})},
	{"tags that stay open", "", part("CONTENT",
		func(n int) string { return repeated(`"`, `<env>\n`, `"`, min(n, 1_000_000)) })},
	{"sections that stay open", "", part("CONTENT", func(n int) string {
		return repeated(`"<system-reminder>\n`, `gitStatus:\n`, `"`, min(n, 1_000_000))
	})},
	{"white space", "", func(_ *testing.T, d *dialect, n int) string {
		return strings.Repeat(" \n", n/2) + d.say("CONTENT", `"hi"`)
	}},
	{"a BOM", "", func(_ *testing.T, d *dialect, _ int) string { return "\ufeff" + d.say("CONTENT", `"hi"`) }},
	{"trailing data", "", func(_ *testing.T, d *dialect, n int) string {
		return repeated(d.say("CONTENT", `"hi"`),
			"{}", "", n)
	}},
	{"truncated", "", func(t *testing.T, d *dialect, n int) string { return longText(t, d, n)[:n/2] }},
	{"gzip of one letter", "gzip", zipped(1, longText)},
	{"gzip of blocks", "gzip", zipped(1, manyBlocks)},
	{"gzip in gzip", "gzip", zipped(2, longText)},
	{"gzip in gzip in gzip", "gzip, gzip, gzip", zipped(3, longText)},
	{"gzip members", "gzip", func(t *testing.T, d *dialect, n int) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_ = z.Close()
		return strings.Repeat(b.String(), max(min(n, 1<<20)/b.Len(), 1)) + gzipped(t, d.say("CONTENT", `"hi"`))
	}},
	{"gzip with a tail", "gzip", func(t *testing.T, d *dialect, n int) string {
		return gzipped(t, longText(t, d, n)) + strings.Repeat("x", 99)
	}},
	{"half of a gzip", "gzip", func(t *testing.T, d *dialect, n int) string {
		packed := gzipped(t, longText(t, d, n))
		return packed[:len(packed)/2]
	}},
	{"zstd of one letter", "zstd", zstdOf(longText)},
	{"zstd of blocks", "zstd", zstdOf(manyBlocks)},
	{"zstd of a huge window", "zstd", zstdOf(longText, zstd.WithWindowSize(128<<20))},
	{"zstd with a dictionary", "zstd", zstdOf(longText, zstd.WithEncoderDictRaw(7, bytes.Repeat([]byte("xy"), 512)))},
	{"half of a zstd", "zstd", func(t *testing.T, d *dialect, n int) string {
		packed := zstdOf(longText)(t, d, n)
		return packed[:len(packed)/2]
	}},
}
