// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/answers"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

func buffered(f wire.Format, data []byte, cuts ...int) []byte {
	h := translate.NewBufferer(f, false)
	var out []byte
	at := 0
	for _, cut := range append(cuts, len(data)) {
		piece := bytes.Clone(data[at:cut]) // a copy, so that a string kept too long shows
		out = append(out, h.Feed(piece)...)
		for i := range piece {
			piece[i] = '#'
		}
		at = cut
	}
	return append(out, h.Close(false)...)
}

// TestBufferer: the turn stays the same, each call's arguments are in one event, and the output does
// not depend on the cuts of the stream.
func TestBufferer(t *testing.T) {
	for _, f := range answers.All(t) {
		if !f.Stream {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			out := buffered(f.Format, f.Data)
			got, want := decoded(f.Format, true, out), decoded(f.Format, true, f.Data)
			if !want.Done { // buffered calls stay buffered
				got.Calls, want.Calls = nil, nil
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v of\n%s", got, want, out)
			}
			pieces := map[string]int{}
			var p framing.SSEFramer
			p.Feed(out, func(e framing.Event) {
				root := gjson.ParseBytes(e.Data)
				if strings.HasSuffix(root.Get("type").Str, "arguments.delta") || root.Get("delta.type").Str == "input_json_delta" ||
					root.Get("delta.type").Str == "arguments_delta" {
					pieces[root.Get("type").Str+root.Get("output_index").Raw+root.Get("index").Raw]++
				}
				root.Get("choices.0.delta.tool_calls").ForEach(func(_, c gjson.Result) bool {
					pieces[c.Get("index").Raw+c.Get("id").Raw]++
					return true
				})
			})
			for call, n := range pieces {
				if n != 1 && f.Name != "anthropic_server_tool.sse" {
					t.Errorf("call %s comes in %d pieces:\n%s", call, n, out)
				}
			}
			for i := 0; i < len(f.Data); i += 1 + len(f.Data)/100 {
				if cut := buffered(f.Format, f.Data, i); !bytes.Equal(cut, out) {
					t.Fatalf("cut at %d:\n%s\nwant\n%s", i, cut, out)
				}
			}
		})
	}
}

// TestBuffererStreamsText: text reaches the client while a call is buffered.
func TestBuffererStreamsText(t *testing.T) {
	h := translate.NewBufferer(wire.OpenAIChat, false)
	chunk := func(delta string) []byte {
		return fmt.Appendf(nil, "data: {\"id\":\"c\",\"x\":1,\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", delta)
	}
	if out := h.Feed(chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}`)); len(out) != 0 {
		t.Errorf("held is %s", out)
	}
	if out := h.Feed(chunk(`{"content":"hi"}`)); !bytes.Equal(out, chunk(`{"content":"hi"}`)) {
		t.Errorf("text is %s", out)
	}
	out := h.Feed(chunk(`{"content":"on","tool_calls":[{"index":0,"function":{"arguments":"}"}}]}`))
	if !bytes.Equal(out, chunk(`{"content":"on"}`)) {
		t.Errorf("text beside a call is %s", out)
	}
	if out := h.Feed([]byte("data: [DONE]\n\n")); !strings.Contains(string(out), `"arguments":"{}"`) ||
		!strings.Contains(string(out), `"x":1`) || !h.Ended() {
		t.Errorf("call is %s", out)
	}
}

// TestBuffererTexts: the text of a call arrives whole for each kind of call, also if a server sends an
// object in its place.
func TestBuffererTexts(t *testing.T) {
	for _, c := range []struct {
		at, want string
		entries  []string
	}{
		{"custom.input", "*** Begin\n\"x\"", []string{
			`"id":"a","type":"custom","custom":{"name":"patch","input":""}`,
			`"custom":{"input":"*** Begin\n"}`, `"custom":{"input":"\"x\""}`,
		}},
		{"function.arguments", `{"a":1}`, []string{`"id":"a","type":"function","function":{"name":"f","arguments":{"a":1}}`}},
		{"type", "strange", []string{`"id":"a","type":"strange"`}},
	} {
		for _, joined := range []bool{false, true} {
			h := translate.NewBufferer(wire.OpenAIChat, joined)
			var out []byte
			for _, e := range c.entries {
				out = append(out, h.Feed([]byte(`data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,`+e+
					"}]}}]}\n\n"))...)
			}
			out = append(out, h.Feed([]byte(`data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+
				"\n\ndata: [DONE]\n\n"))...)
			event, _, _ := strings.Cut(strings.TrimPrefix(string(out), "data: "), "\n\n")
			if got := gjson.Get(event, "choices.0.delta.tool_calls.0."+c.at); !gjson.Valid(event) || got.Str != c.want {
				t.Errorf("%s, joined %t: %s", c.at, joined, out)
			}
		}
	}
}

// TestBuffererCalls: call fragments of different servers reach clients, which join them by index, as
// the calls that the model made, each with an id.
func TestBuffererCalls(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []string
		want    []string
	}{
		{
			"two under one index, one without an id",
			[]string{
				`{"index":0,"function":{"name":"read","arguments":"{\"n\":1}"}}`,
				`{"index":0,"id":"b","function":{"name":"read","arguments":"{\"n\":2}"}}`,
			},
			[]string{`0 read {"n":1}`, `1 read {"n":2}`},
		},
		{"two with one id", []string{
			`{"index":0,"id":"a","function":{"name":"read","arguments":"{\"n\":1}"}}`,
			`{"index":0,"id":"a","function":{"name":"read","arguments":"{\"n\":2}"}}`,
		}, []string{`0 read {"n":1}`, `1 read {"n":2}`}},
		{"two with one id and two indexes", []string{
			`{"index":0,"id":"a","function":{"name":"read","arguments":"{\"n\":1}"}}`,
			`{"index":1,"id":"a","function":{"name":"read","arguments":"{\"n\":2}"}}`,
		}, []string{`0 read {"n":1}`, `1 read {"n":2}`}},
		{"two in pieces under one index", []string{
			`{"index":0,"function":{"name":"read","arguments":""}}`, `{"index":0,"function":{"arguments":"{\"n\":1}"}}`,
			`{"index":0,"function":{"name":"read","arguments":""}}`, `{"index":0,"function":{"arguments":"{\"n\":"}}`,
			`{"index":0,"function":{"arguments":"2}"}}`,
		}, []string{`0 read {"n":1}`, `1 read {"n":2}`}},
		{"one without arguments behind another", []string{
			`{"index":0,"function":{"name":"read","arguments":"{\"n\":1}"}}`,
			`{"index":0,"function":{"name":"list","arguments":""}}`,
		}, []string{`0 read {"n":1}`, `1 list `}},
		{"a name repeated at the end", []string{
			`{"index":0,"id":"a","function":{"name":"read","arguments":"{}"}}`,
			`{"index":0,"id":"a","function":{"name":"read","arguments":""}}`,
		}, []string{`0 read {}`}},
		{"another id in each piece", []string{
			`{"index":0,"id":"a","function":{"name":"read","arguments":"{"}}`,
			`{"index":0,"id":"b","function":{"name":null,"arguments":"}"}}`,
		}, []string{`0 read {}`}},
		{"indexes from 1 and null", []string{
			`{"index":1,"id":"a","function":{"name":"read","arguments":"{}"}}`,
			`{"index":null,"id":"b","function":{"name":"list","arguments":"{}"}}`,
		}, []string{`0 read {}`, `1 list {}`}},
		{"two without an index", []string{
			`{"id":"a","function":{"name":"read","arguments":"{}"}}`,
			`{"id":"b","function":{"name":"list","arguments":"{}"}}`,
		}, []string{`0 read {}`, `1 list {}`}},
		{"interleaved", []string{
			`{"index":0,"id":"a","function":{"name":"read","arguments":"{"}}`,
			`{"index":1,"id":"b","function":{"name":"list","arguments":"{"}}`, `{"index":0,"function":{"arguments":"}"}}`,
			`{"index":1,"function":{"arguments":"}"}}`,
		}, []string{`0 read {}`, `1 list {}`}},
		{"a name in pieces", []string{
			`{"index":0,"id":"a","function":{"name":"re"}}`,
			`{"index":0,"function":{"name":"ad","arguments":"{}"}}`,
		}, []string{`0 read {}`}},
		{"a piece at a new index", []string{
			`{"index":0,"id":"a","function":{"name":"read","arguments":""}}`,
			`{"index":1,"function":{"arguments":"{}"}}`,
		}, []string{`0 read {}`}},
		{"a call of nothing", []string{
			`{"index":0,"id":"a","function":{"name":"read","arguments":"{}"}}`,
			`{"index":1,"id":"b","type":"function","function":{}}`,
		}, []string{`0 read {}`}},
	} {
		for _, joined := range []bool{false, true} {
			h := translate.NewBufferer(wire.OpenAIChat, joined)
			var out []byte
			for _, e := range c.entries {
				out = append(out, h.Feed([]byte(`data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[`+e+"]}}]}\n\n"))...)
			}
			out = append(out, h.Feed([]byte(`data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+
				"\n\ndata: [DONE]\n\n"))...)
			var got []string
			ids := map[string]bool{"": true}
			for line := range strings.Lines(string(out)) {
				gjson.Get(strings.TrimPrefix(line, "data: "), "choices.0.delta.tool_calls").ForEach(func(_,
					call gjson.Result,
				) bool {
					got = append(got, fmt.Sprint(call.Get("index").Raw, " ", call.Get("function.name").Str, " ",
						call.Get("function.arguments").Str))
					if id := call.Get("id").Str; ids[id] {
						t.Errorf("%s, joined %t: the id %q is none of its own", c.name, joined, id)
					} else {
						ids[id] = true
					}
					return true
				})
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, joined %t: got %q, want %q in\n%s", c.name, joined, got, c.want, out)
			}
		}
	}
}

// FuzzBufferer: no stream makes a Bufferer panic, lose text or end an unfinished answer.
func FuzzBufferer(f *testing.F) {
	for _, a := range answers.All(f) {
		for i, format := range translate.Formats() {
			if a.Format == format {
				f.Add(a.Data, uint8(i), uint16(len(a.Data)/3))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, format uint8, cut uint16) {
		fm := translate.Formats()[int(format)%len(translate.Formats())]
		out := buffered(fm, data)
		if again := buffered(fm, data, min(int(cut), len(data))); !bytes.Equal(out, again) {
			t.Fatalf("cut: %q, want %q", again, out)
		}
		want := decoded(fm, true, data)
		got := decoded(fm, true, out)
		if got.Done && !want.Done {
			t.Fatalf("an end was made up: %q of %q", out, data)
		}
		if want.Done && (got.Text != want.Text || got.Thinking != want.Thinking) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// TestWholeCalls: calls of an answer in one piece get ids of their own and arguments as strings, and an answer that has
// them keeps its bytes.
func TestWholeCalls(t *testing.T) {
	for _, c := range []struct {
		calls   string
		changes bool
	}{
		{`{"function":{"name":"read","arguments":"{\"n\":1}"}},{"id":"","function":{"name":"read","arguments":{"n":1}}}`, true},
		{`{"id":"a","function":{"name":"read","arguments":"{\"n\":1}"}},{"id":"a","function":{"name":"read",` +
			`"arguments":"{\"n\":1}"}}`, true},
		{`{"id":"a", "function":{"name":"read","arguments":"{\"n\":1}"}},{"id":"b","function":{"name":"read",` +
			`"arguments":"{\"n\":1}"}}`, false},
	} {
		body := `{"id":"c","choices":[{"index":0,"message":{"tool_calls":[` + c.calls + `]}}]}`
		out := string(translate.WholeCalls(wire.OpenAIChat, []byte(body)))
		if c.changes == (out == body) {
			t.Errorf("%s: got %s, want it changed: %t", body, out, c.changes)
		}
		calls := gjson.Get(out, "choices.0.message.tool_calls").Array()
		if len(calls) != 2 {
			t.Fatalf("%s: got %s, want two calls", body, out)
		}
		if a, b := calls[0].Get("id").Str, calls[1].Get("id").Str; a == "" || b == "" || a == b {
			t.Errorf("%s: got %s, want two ids", body, out)
		}
		for _, call := range calls {
			if got := call.Get("function.arguments").Str; got != `{"n":1}` || call.Get("index").Exists() {
				t.Errorf("%s: got %s, want the arguments as a string and no index", body, out)
			}
		}
	}
}
