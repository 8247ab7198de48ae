// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

func mustParse(t testing.TB, f wire.Format, body string) *wire.View {
	t.Helper()
	v, err := wire.Parse(f, []byte(body), nil)
	if err != nil {
		t.Fatalf("parsing %s: %v", body, err)
	}
	return v
}

// outline renders a view's blocks: section, role, kind, id, name, flags, body.
func outline(v *wire.View) string {
	var s strings.Builder
	for i := range v.Blocks {
		b := &v.Blocks[i]
		fmt.Fprintf(&s, "%d/%d/%s", b.Section, b.Role, b.Kind)
		for _, part := range []rawjson.Span{b.ID, b.Name, b.Body, b.Marker} {
			s.WriteByte('|')
			s.Write(v.Bytes(part))
		}
		if b.Flags != 0 {
			fmt.Fprintf(&s, "|%05b", b.Flags)
		}
		s.WriteByte('\n')
	}
	return s.String()
}

func TestParseAnthropic(t *testing.T) {
	v := mustParse(t, wire.Anthropic, `{"model":"claude-opus-4-6","messages":[
	 {"role":"user","content":"hi"},
	 {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"ok"},{"type":"tool_use","id":"t1","name":"Read","input":{"a":[1,"}"]}}]},
	 {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"r"},{"type":"image","source":{}}]},{"cache_control":{"type":"ephemeral"},"type":"text","text":""}]},
	 {"role":"system","content":[]},
	 {"role":"user","content":[{"type":"web_search_tool_result","content":[]},{"type":"novelty","x":1},{"type":"document","source":{}}]}],
	 "system":[{"type":"text","text":"sys"}],"tools":[{"name":"Read","input_schema":{},"defer_loading":true}],
	 "metadata":{"user_id":"{\"device_id\":\"d\",\"session_id\":\"abc\"}"},"max_tokens":7,"stream":true,"cache_control":{"type":"ephemeral"}}`)
	want := `0/0/tool_def||Read|||00100
1/1/text|||"sys"|
2/2/text|||"hi"||00010
2/3/thinking|||"hm"|
2/3/redacted_thinking|||"x"|
2/3/text|||"ok"|
2/3/tool_use|t1|Read|{"a":[1,"}"]}|
2/2/tool_result|t1||[{"type":"text","text":"r"},{"type":"image","source":{}}]||01001
2/2/text|||""|{"type":"ephemeral"}|10000
2/2/server_tool||||
2/2/other||||
2/2/document||||
`
	if got := outline(v); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if v.Model != "claude-opus-4-6" || v.Session != "abc" || !v.Reply.Stream || v.Reply.MaxTokens != 7 || v.Tools != 1 ||
		v.System != 2 || v.Caching.AutoMarker.Empty() {
		t.Errorf("settings: %+v", v)
	}
	if len(v.Messages) != 5 || v.Messages[3].First != v.Messages[3].End || v.Messages[3].Role != wire.RoleSystem {
		t.Errorf("messages: %+v", v.Messages)
	}
}

func TestParseOpenAIChat(t *testing.T) {
	v := mustParse(t, wire.OpenAIChat, `{"model":"gpt-5","messages":[
	 {"role":"developer","content":"sys"},{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"u"}}]},
	 {"role":"assistant","tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"a\":1}"}}],"content":null,"reasoning_content":"hm"},
	 {"role":"tool","tool_call_id":"c1","content":"out"}],
	 "tools":[{"type":"function","function":{"name":"ls","parameters":{}}}],"prompt_cache_key":"k1","max_completion_tokens":5}`)
	want := `0/0/tool_def||ls||
2/1/text|||"sys"||00010
2/2/text|||"hi"|
2/2/other||||
2/3/thinking|||"hm"||100000
2/3/tool_use|c1|ls|"{\"a\":1}"|
2/4/tool_result|c1||"out"||00010
`
	if got := outline(v); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if v.Session != "k1" || v.Reply.MaxTokens != 5 || v.Tools != 1 || v.System != 1 {
		t.Errorf("settings: %+v", v)
	}
}

func TestParseRefuses(t *testing.T) {
	deep := strings.Repeat("[", rawjson.MaxDepth+2) + strings.Repeat("]", rawjson.MaxDepth+2)
	for _, c := range []struct {
		name, body string
		want       error
	}{
		{"empty", ``, wire.ErrSyntax},
		{"not an object", `[]`, wire.ErrSyntax},
		{"truncated", `{"messages":[{"role":"user","content":"hi`, wire.ErrSyntax},
		{"truncated behind messages", `{"messages":[{"role":"user","content":"hi"}]`, wire.ErrSyntax},
		{"something behind", `{"messages":[{"role":"user","content":"hi"}]}x`, wire.ErrSyntax},
		{"no messages", `{"model":"m"}`, wire.ErrShape},
		{"messages empty", `{"messages":[]}`, wire.ErrShape},
		{"messages not an array", `{"messages":{}}`, wire.ErrSyntax},
		{
			"messages twice", `{"messages":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"b"}]}`,
			wire.ErrDuplicate,
		},
		{"system twice", `{"system":"a","system":"b","messages":[{"role":"user","content":"a"}]}`, wire.ErrDuplicate},
		{"escaped key", `{"mess\u0061ges":[],"messages":[{"role":"user","content":"a"}]}`, wire.ErrSyntax},
		{"too deep", `{"x":` + deep + `,"messages":[{"role":"user","content":"a"}]}`, wire.ErrSyntax},
		{"trailing comma", `{"messages":[{"role":"user","content":"a"},]}`, wire.ErrSyntax},
		{"tools a string", `{"tools":"x","messages":[{"role":"user","content":"a"}]}`, wire.ErrShape},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, f := range []wire.Format{wire.Anthropic, wire.OpenAIChat} {
				if f == wire.OpenAIChat && strings.HasPrefix(c.name, "system") {
					continue // no member of that name in this message
				}
				if _, err := wire.Parse(f, []byte(c.body), nil); !errors.Is(err, c.want) {
					t.Errorf("%s: got %v, want %v", f, err, c.want)
				}
			}
		})
	}
	if _, err := wire.Parse("morse", []byte(`{}`), nil); !errors.Is(err, wire.ErrFormat) {
		t.Errorf("got %v", err)
	}
}

// Canonical hashes ignore the members that clients change between requests.
func TestHashIsCanonical(t *testing.T) {
	message := func(content string) string {
		return `{"messages":[{"role":"user","content":` + content + `}]}`
	}
	result := func(content string) string {
		return message(`[{"type":"tool_result","tool_use_id":"t","content":` + content + `}]`)
	}
	system := func(text string) string {
		return `{"system":` + text + `,"messages":[{"role":"user","content":"hi"}]}`
	}
	for _, c := range []struct {
		name string
		a, b string
		same bool
	}{
		{"string and array", message(`"hi"`), message(`[{"type":"text","text":"hi"}]`), true},
		{
			"marker", message(`[{"type":"text","text":"hi"}]`),
			message(`[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]`), true,
		},
		{
			"space between members", message(`[{"type":"text","text":"hi"}]`),
			message(`[ { "type" : "text" , "text" : "hi" } ]`), true,
		},
		{"other text", message(`"hi"`), message(`"ho"`), false},
		{"other role", message(`"hi"`), strings.Replace(message(`"hi"`), "user", "assistant", 1), false},
		{"result string and array", result(`"x"`), result(`[{"type":"text","text":"x"}]`), true},
		{"result of two texts", result(`"x"`), result(`[{"type":"text","text":"x"},{"type":"text","text":"y"}]`), false},
		{"is_error false", result(`"x"`), result(`"x","is_error":false`), true},
		{"is_error true", result(`"x"`), result(`"x","is_error":true`), false},
		{
			"attribution", system(`[{"type":"text","text":"` + wire.AttributionLine + ` cch=1;"},{"type":"text","text":"S"}]`),
			system(`[{"type":"text","text":"` + wire.AttributionLine + ` cch=2; cc_prev_req=3;"},{"type":"text","text":"S"}]`),
			true,
		},
		{
			"attribution and none", system(`[{"type":"text","text":"` + wire.AttributionLine + ` cch=1;"}]`),
			system(`[{"type":"text","text":"cch=1;"}]`), false,
		},
		{
			"attribution and more", system(`[{"type":"text","text":"` + wire.AttributionLine + ` cch=1;\nS"}]`),
			system(`[{"type":"text","text":"` + wire.AttributionLine + ` cch=2;\nS"}]`), false,
		},
		{
			"attribution as a string", system(`"` + wire.AttributionLine + ` cch=1;"`),
			system(`"` + wire.AttributionLine + ` cch=2;"`), false,
		},
		{
			"attribution in a message", message(`"` + wire.AttributionLine + ` cch=1;"`),
			message(`"` + wire.AttributionLine + ` cch=2;"`), false,
		},
		{
			"citations count", message(`[{"type":"text","text":"hi"}]`), message(`[{"type":"text","text":"hi","citations":[]}]`),
			false,
		},
	} {
		a, b := mustParse(t, wire.Anthropic, c.a), mustParse(t, wire.Anthropic, c.b)
		if (a.Blocks[0].Hash == b.Blocks[0].Hash) != c.same {
			t.Errorf("%s: same = %t, want %t", c.name, !c.same, c.same)
		}
	}
}

// An attribution is only recognised as the first system entry.
func TestAttributionStandsFirst(t *testing.T) {
	body := `{"system":[{"type":"text","text":"S"},{"type":"text","text":"` + wire.AttributionLine +
		` cch=%d;"}],"messages":[{"role":"user","content":"hi"}]}`
	a, b := mustParse(t, wire.Anthropic, fmt.Sprintf(body, 1)), mustParse(t, wire.Anthropic, fmt.Sprintf(body, 2))
	if a.Attributed() || a.Blocks[1].Hash == b.Blocks[1].Hash {
		t.Error("the second text of a system prompt is taken for an attribution")
	}
	if v := mustParse(t, wire.Anthropic, `{"system":[{"type":"text","text":"`+wire.AttributionLine+
		` cch=1;"}],"tools":[{"name":"a"}],"messages":[{"role":"user","content":"hi"}]}`); !v.Attributed() {
		t.Error("the first text of a system prompt is not taken for an attribution")
	}
}

// A parse with recall gives the same view as one without.
func TestRecall(t *testing.T) {
	first := `{"messages":[{"role":"user","content":[{"type":"text","text":"one",` +
		`"cache_control":{"type":"ephemeral"}}]}],"system":"s","tools":[{"name":"a"}],"model":"m"}`
	second := `{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":[{"type":"tool_use","id":"t",` +
		`"name":"a","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r",` +
		`"cache_control":{"type":"ephemeral"}}]}],"system":"s","tools":[{"name":"a"}],"model":"m"}`
	third := strings.Replace(strings.Replace(second, `,"cache_control":{"type":"ephemeral"}`, "", 1),
		`]}],"system"`,
		`]},{"role":"assistant","content":"done"},{"role":"user","content":[{"type":"text","text":"more"}]}],"system"`, 1)
	var known *wire.Known
	recall := func(h wire.Hash) *wire.Known {
		if known != nil && known.First() != h {
			t.Errorf("asked for another conversation")
		}
		return known
	}
	for i, body := range []string{
		first, second, third, third, second,
		strings.Replace(third, `"system":"s"`, `"system":"new","x":1`, 1),
	} {
		v, err := wire.Parse(wire.Anthropic, []byte(body), recall)
		if err != nil {
			t.Fatal(err)
		}
		cold := mustParse(t, wire.Anthropic, body)
		sameViews(t, v, cold)
		if want := [...]int{0, 2, 4, 7, 4, 3}[i]; v.Recalled != want {
			t.Errorf("request %d: recalled %d blocks, want %d", i, v.Recalled, want)
		}
		known = v.Known()
	}
}

// Conversations with equal system prompts are distinguished by their first prompt, and recalled
// whether their first turn is read for the first time or not.
func TestRecallByOpening(t *testing.T) {
	body := func(format wire.Format, prompt, rest string) []byte {
		if format == wire.Gemini {
			return []byte(`{"contents":[{"role":"user","parts":[{"text":"context"}]},{"parts":[{"text":"` + prompt +
				`"}],"role":"user"}` +
				strings.ReplaceAll(strings.ReplaceAll(rest, "assistant", "model"), `"content":"x"`, `"parts":[{"text":"x"}]`) +
				`]}`)
		}
		return []byte(`{"model":"m","messages":[{"role":"system","content":"the same"},{"content":"` + prompt +
			`","role":"user"}` + rest + `]}`)
	}
	const answer, more = `,{"role":"assistant","content":"x"}`, `,{"role":"user","content":"x"}`
	for _, format := range []wire.Format{wire.Anthropic, wire.OpenAIChat, wire.Gemini} {
		store := map[wire.Hash]*wire.Known{}
		recall := func(h wire.Hash) *wire.Known { return store[h] }
		for round, rest := range []string{"", answer + more, answer + more + answer + more, answer + more + answer + more} {
			for _, prompt := range []string{"one", "two", "three"} {
				b := body(format, prompt+" of "+string(format), rest)
				v, err := wire.Parse(format, b, recall)
				if err != nil {
					t.Fatal(err)
				}
				sameViews(t, v, mustParse(t, format, string(b)))
				if want := [...]int{0, 0, 4, 6}[round]; v.Recalled != want {
					t.Errorf("%s, %s, round %d: recalled %d blocks, want %d", format, prompt, round, v.Recalled, want)
				}
				store[v.First()] = v.Known()
			}
		}
		if len(store) != 3 {
			t.Errorf("%s: %d conversations", format, len(store))
		}
	}
}

func sameViews(t testing.TB, a, b *wire.View) {
	t.Helper()
	if len(a.Blocks) != len(b.Blocks) || len(a.Messages) != len(b.Messages) || a.Tools != b.Tools || a.System != b.System {
		t.Fatalf("views differ in shape: %d %d blocks, %d %d messages", len(a.Blocks), len(b.Blocks), len(a.Messages),
			len(b.Messages))
	}
	for i := range a.Blocks {
		if a.Blocks[i] != b.Blocks[i] {
			t.Fatalf("block %d differs: %+v, %+v", i, a.Blocks[i], b.Blocks[i])
		}
	}
	for i := range a.Messages {
		if a.Messages[i] != b.Messages[i] {
			t.Fatalf("message %d differs: %+v, %+v", i, a.Messages[i], b.Messages[i])
		}
	}
	if !slices.Equal(a.Summaries(), b.Summaries()) {
		t.Fatalf("summaries differ: %+v, %+v", a.Summaries(), b.Summaries())
	}
	var sizes [wire.Kinds]int
	var marked []int
	media := false
	for i := range b.Blocks {
		block := &b.Blocks[i]
		sizes[block.Kind] += block.Span.Len()
		if !block.Marker.Empty() {
			marked = append(marked, i)
		}
		media = media || block.Kind == wire.KindImage || block.Has(wire.FlagMedia)
	}
	if got := a.Sizes(); got != sizes {
		t.Errorf("sizes: got %v, want %v", got, sizes)
	}
	if got := slices.Collect(a.Marked()); !slices.Equal(got, marked) {
		t.Errorf("marked blocks: got %v, want %v", got, marked)
	}
	if got := a.HasMedia(); got != media {
		t.Errorf("media: got %t, want %t", got, media)
	}
}

// checkShared: the blocks that a parse shares with a Known are the Known's, and at least so many.
func checkShared(t testing.TB, v *wire.View, known *wire.Known, minBlocks int) {
	t.Helper()
	n := v.Shared(known)
	if n < minBlocks {
		t.Errorf("%d blocks are shared, want %d", n, minBlocks)
	}
	for i, b := range v.MessageBlocks()[:n] {
		if b.Hash != known.Chain()[i].Hash {
			t.Fatalf("block %d is not the shared one", i)
		}
	}
}

// TestRenamed compares the view of a body with another model with the view that a parse of that body gives.
func TestRenamed(t *testing.T) {
	const rest = `"tools":[{"type":"function","function":{"name":"a"}}],"stream_options":{"include_usage":true},` +
		`"tool_choice":"auto","reasoning_effort":"low","response_format":{"type":"text"},"cache_control":{"type":"x"},` +
		`"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"u"}]},` +
		`{"role":"assistant","reasoning_content":"r","content":null,"tool_calls":[{"id":"c","type":"function",` +
		`"function":{"name":"a","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"t"}]`
	const more = `"tools":[{"name":"a"}],"system":[{"type":"text","text":"s"}],"thread":{"type":"create"},"tags":["x"],` +
		`"context_management":{"edits":[]},"compaction":{},"cache_control":{"type":"ephemeral"},` +
		`"thinking":{"type":"adaptive"},"tool_choice":{"type":"auto"},"output_config":{"effort":"low"},` +
		`"messages":[{"role":"user","content":[{"type":"text","text":"u","cache_control":{"type":"ephemeral"}}]}]`
	for _, format := range []wire.Format{wire.OpenAIChat, wire.Anthropic} {
		for _, body := range []string{
			`{"model":"one",` + rest + `}`, `{` + rest + `,"model":"one"}`, `{` + more + `, "model" : "one"}`,
			`{"model":"one",` + more + `}`, strings.Replace(`{`+more+`}`, `"system"`, `"model":"one","system"`, 1),
			`{` + rest + `}`,
		} {
			v, err := wire.Parse(format, []byte(body), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"one", "two", "a longer \"name\"", ""} {
				got, err := v.Renamed(name)
				if err != nil {
					t.Fatal(err)
				}
				want, err := wire.Parse(format, got.Raw, nil)
				if err != nil {
					t.Fatal(err)
				}
				sameViews(t, got, want)
				if got.Model != name || got.Reply != want.Reply || got.Tags != want.Tags || got.Caching != want.Caching ||
					got.Conversation != want.Conversation {
					t.Errorf("%s as %q: got %+v, want %+v", body, name, got, want)
				}
			}
		}
	}
}

func TestSpliceMarkerAnew(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":[{"type":"text","cache_control": {"type":"ephemeral"} ,` +
		`"text":"a"}]}]}`
	got, err := mustParse(t, wire.Anthropic,
		body).Splice([]wire.Edit{{Block: 0, Op: wire.OpMark, Value: []byte(`{"type":"ephemeral","ttl":"1h"}`)}})
	if want := strings.Replace(body, `"ephemeral"`, `"ephemeral","ttl":"1h"`, 1); err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

func TestSplice(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking",` +
		`"thinking":"a","signature":"s"}, {"type":"text","text":"b"},{"type":"text","text":"c"}]}],"n":1.50}`
	mark := []byte(`{"type":"ephemeral"}`)
	for _, c := range []struct {
		name  string
		edits []wire.Edit
		want  string // "" = refused
	}{
		{"nothing", nil, body},
		{
			"remove first",
			[]wire.Edit{{Block: 1, Op: wire.OpRemove}},
			strings.Replace(body, `{"type":"thinking","thinking":"a","signature":"s"}, `, "", 1),
		},
		{"remove middle", []wire.Edit{{Block: 2, Op: wire.OpRemove}}, strings.Replace(body, `{"type":"text","text":"b"},`, "",
			1)},
		{"remove last", []wire.Edit{{Block: 3, Op: wire.OpRemove}}, strings.Replace(body, `,{"type":"text","text":"c"}`, "",
			1)},
		{
			"remove two",
			[]wire.Edit{{Block: 3, Op: wire.OpRemove}, {Block: 1, Op: wire.OpRemove}},
			strings.Replace(strings.Replace(body, `{"type":"thinking","thinking":"a","signature":"s"}, `, "", 1),
				`,{"type":"text","text":"c"}`, "", 1),
		},
		{
			"remove tail",
			[]wire.Edit{{Block: 2, Op: wire.OpRemove}, {Block: 3, Op: wire.OpRemove}},
			strings.Replace(body, `, {"type":"text","text":"b"},{"type":"text","text":"c"}`, "", 1),
		},
		{"remove all", []wire.Edit{
			{Block: 1, Op: wire.OpRemove},
			{Block: 2, Op: wire.OpRemove},
			{Block: 3, Op: wire.OpRemove},
		}, ""},
		{"remove the only", []wire.Edit{{Block: 0, Op: wire.OpRemove}}, ""},
		{
			"replace",
			[]wire.Edit{{Block: 2, Op: wire.OpReplace, Value: []byte(`"B!"`)}},
			strings.Replace(body, `"b"`, `"B!"`, 1),
		},
		{
			"mark",
			[]wire.Edit{{Block: 2, Op: wire.OpMark, Value: mark}},
			strings.Replace(body, `"text":"b"`, `"text":"b","cache_control":{"type":"ephemeral"}`, 1),
		},
		{
			"mark and replace a string",
			[]wire.Edit{
				{Block: 0, Op: wire.OpMark, Value: mark},
				{Block: 0, Op: wire.OpReplace, Value: []byte(`"x"`)},
			},
			strings.Replace(body, `"hi"`, `[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]`, 1),
		},
		{"mark thinking", []wire.Edit{{Block: 1, Op: wire.OpMark, Value: mark}}, ""},
		{"replace twice", []wire.Edit{
			{Block: 2, Op: wire.OpReplace, Value: []byte(`"x"`)},
			{Block: 2, Op: wire.OpReplace, Value: []byte(`"y"`)},
		}, ""},
		{"replace and remove", []wire.Edit{
			{Block: 2, Op: wire.OpReplace, Value: []byte(`"x"`)},
			{Block: 2, Op: wire.OpRemove},
		}, ""},
		{"out of range", []wire.Edit{{Block: 9, Op: wire.OpRemove}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := mustParse(t, wire.Anthropic, body).Splice(c.edits)
			if c.want == "" {
				if !errors.Is(err, wire.ErrEdit) {
					t.Fatalf("got %s, %v", got, err)
				}
				return
			}
			if err != nil || string(got) != c.want {
				t.Fatalf("got %s, %v\nwant %s", got, err, c.want)
			}
			if !json.Valid(got) {
				t.Error("the result is not JSON")
			}
		})
	}
}

func TestSpliceChat(t *testing.T) {
	const call = `"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]`
	for _, c := range []struct{ name, message, want string }{
		{
			"reasoning first", `{"reasoning_content":"r", "role":"assistant","content":"t",` + call + `}`,
			`{"role":"assistant","content":null,` + call + `}`,
		},
		{
			"reasoning last", `{"role":"assistant","content":"t",` + call + ` , "reasoning_content":"r"}`,
			`{"role":"assistant","content":null,` + call + ` }`,
		},
		{
			"parts", `{"role":"assistant","content":[{"type":"text","text":"t"}],"reasoning":"r",` + call + `}`,
			`{"role":"assistant","content":null,` + call + `}`,
		},
	} {
		v := mustParse(t, wire.OpenAIChat, `{"messages":[`+c.message+`]}`)
		if v.Blocks[0].Kind != wire.KindThinking || v.Blocks[1].Kind != wire.KindText ||
			v.Blocks[2].Kind != wire.KindToolUse {
			t.Fatalf("%s: %s", c.name, outline(v))
		}
		got, err := v.Splice([]wire.Edit{{Block: 0, Op: wire.OpRemove}, {Block: 1, Op: wire.OpRemove}})
		if want := `{"messages":[` + c.want + `]}`; err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v\nwant %s", c.name, got, err, want)
		}
		if _, err := v.Splice([]wire.Edit{{Block: 2, Op: wire.OpRemove}}); !errors.Is(err, wire.ErrEdit) {
			t.Errorf("%s: a call was removed: %v", c.name, err)
		}
	}
}

// everyEdit proposes one edit for each editable block.
func everyEdit(v *wire.View) []wire.Edit {
	var edits []wire.Edit
	for i := range v.Messages {
		m := &v.Messages[i]
		left := int(m.End - m.First)
		for j := int(m.First); j < int(m.End); j++ {
			b := &v.Blocks[j]
			if b.Has(wire.FlagSigned) {
				continue
			}
			switch b.Kind {
			case wire.KindThinking, wire.KindRedactedThinking:
				if left > 1 {
					edits = append(edits, wire.Edit{Block: j, Op: wire.OpRemove})
					left--
				}
			case wire.KindText:
				if v.Traits().FlatItems && m.Role == wire.RoleAssistant && left > 1 && v.Removable(j) {
					edits = append(edits, wire.Edit{Block: j, Op: wire.OpRemove})
					left--
				}
			case wire.KindToolResult:
				if !b.Body.Empty() {
					edits = append(edits, wire.Edit{Block: j, Op: wire.OpReplace, Value: []byte(`"stub"`)})
				}
			}
		}
	}
	return edits
}

// checkSplice checks the splice invariant: without edits the same bytes; with edits valid JSON, in
// which every unedited block has its original bytes.
func checkSplice(t testing.TB, v *wire.View) {
	t.Helper()
	same, err := v.Splice(nil)
	if err != nil || !bytes.Equal(same, v.Raw) {
		t.Fatalf("no edits changed the body: %v", err)
	}
	edits := everyEdit(v)
	out, err := v.Splice(edits)
	if err != nil {
		t.Fatalf("splice: %v", err)
	}
	if json.Valid(v.Raw) && !json.Valid(out) {
		t.Fatalf("not JSON any more: %q became %q", v.Raw, out)
	}
	w, err := wire.Parse(v.Format, out, nil)
	if err != nil {
		t.Fatalf("cannot be read any more: %v", err)
	}
	edited := map[int]wire.Op{}
	for _, e := range edits {
		edited[e.Block] = e.Op
	}
	j := 0
	for i := range v.Blocks {
		op, hit := edited[i]
		if hit && op == wire.OpRemove {
			continue
		}
		if j == len(w.Blocks) {
			t.Fatalf("block %d is lost", i)
		}
		a, b := &v.Blocks[i], &w.Blocks[j]
		j++
		if a.Kind != b.Kind || !bytes.Equal(v.Bytes(a.ID), w.Bytes(b.ID)) ||
			a.Flags&wire.FlagError != b.Flags&wire.FlagError {
			t.Fatalf("block %d is another block: %s became %s", i, a.Kind, b.Kind)
		}
		if !hit && !bytes.Equal(v.Bytes(a.Span), w.Bytes(b.Span)) {
			t.Fatalf("block %d was not edited and changed", i)
		}
	}
	if j != len(w.Blocks) {
		t.Fatal("a block has appeared")
	}
}

func FuzzSplice(f *testing.F) {
	f.Add(true,
		[]byte(`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking",`+
			`"thinking":"a"},{"type":"tool_use","id":"t","name":"n","input":{"x":[1,2]}}]},{"role":"user",`+
			`"content":[{"type":"tool_result","tool_use_id":"t","content":"r\"\\"}]}],"system":[{"type":"text","text":"s"}],`+
			`"tools":[{"name":"n"}]}`))
	f.Add(false,
		[]byte(`{"messages":[{"role":"assistant","reasoning_content":"r","content":null,"tool_calls":[{"id":"c",`+
			`"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text",`+
			`"text":"x"}]}]}`))
	f.Add(true, []byte(`{"messages":[ { "content" : [ ] , "role" : "system" } ] , "model" : null }`))
	f.Fuzz(func(t *testing.T, anthropic bool, body []byte) {
		format := wire.OpenAIChat
		if anthropic {
			format = wire.Anthropic
		}
		v, err := wire.Parse(format, body, nil)
		if err != nil {
			return
		}
		checkSplice(t, v)
		again, err := wire.Parse(format, body, func(wire.Hash) *wire.Known { return v.Known() })
		if err != nil {
			t.Fatalf("not readable a second time: %v", err)
		}
		sameViews(t, v, again)
	})
}
