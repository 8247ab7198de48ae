// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
)

// list returns the tools with names of one letter; an upper case letter has a marker.
func list(names string) string {
	var tools []string
	for _, name := range names {
		tool := `{"name":"` + strings.ToLower(string(name)) + `","input_schema":{"type":"object"}`
		if strings.ToLower(string(name)) != string(name) {
			tool += `,"cache_control":{"type":"ephemeral"}`
		}
		tools = append(tools, tool+"}")
	}
	return strings.Join(tools, ", ")
}

// toolNames returns the names of the tools in a body.
func toolNames(body []byte) (out string) {
	for _, name := range gjson.GetBytes(body, "tools.#.name").Array() {
		if name.Str == ExpandTool {
			out += "+"
		} else {
			out += name.Str
		}
	}
	return out
}

// A conversation's tools keep the order in which they were sent first, where the cache then finds more.
func TestToolOrder(t *testing.T) {
	type request struct{ client, want string }
	for _, c := range []struct {
		name     string
		o        Options
		rules    pricing.Rules
		pause    time.Duration
		requests []request
	}{
		{"in another order", Options{}, keeping, 0, []request{{"abc", "abc"}, {"bca", "abc"}, {"cab", "abc"}, {"abc", "abc"}}},
		{"some more", Options{}, keeping, 0, []request{{"abc", "abc"}, {"axbc", "abcx"}, {"yaxbc", "abcxy"}, {"axybc", "abcxy"}}},
		{"one less", Options{}, keeping, 0, []request{{"abc", "abc"}, {"cba", "abc"}, {"ba", "ab"}, {"bda", "abd"}}},
		{"the first is gone", Options{}, keeping, 0, []request{{"abc", "abc"}, {"cb", "cb"}, {"bc", "cb"}}},
		{"a marker goes along", Options{}, keeping, 0, []request{{"abC", "abc"}, {"acB", "abc"}}},
		{"two markers", Options{}, keeping, 0, []request{{"abc", "abc"}, {"BaC", "bac"}}},
		{"the same tool twice", Options{}, keeping, 0, []request{{"abc", "abc"}, {"bbac", "bbac"}}},
		{"without a cache", Options{}, keeping, time.Hour, []request{{"abc", "abc"}, {"bca", "bca"}, {"abc", "abc"}}},
		{"without a cache, thinking bound", Options{}, binding, time.Hour, []request{{"abc", "abc"}, {"bca", "abc"}}},
		{"a local server", Options{}, pricing.Rules{Regime: pricing.KV}, 0, []request{{"abc", "abc"}, {"bca", "bca"}}},
		{"observe", Options{Policy: Observe}, keeping, 0, []request{{"abc", "abc"}, {"bca", "bca"}}},
		{
			"with the expand tool",
			Options{Expand: Expand{Mode: stage.On}},
			keeping, 0,
			[]request{{"abc", "abc+"}, {"cba", "abc+"}, {"caxb", "abcx+"}},
		},
	} {
		s := newScript(t, c.o, c.rules)
		s.prompt("Fix the bug.")
		for i, r := range c.requests {
			s.tools = list(r.client)
			x := s.send(wire.Turn{Text: "Done.", Done: true})
			if got := toolNames(x.Prompt.Body.Bytes()); got != r.want {
				t.Errorf("%s: request %d: got %s, want %s", c.name, i, got, r.want)
			}
			if got, want := count(x, stage.Tools) > 0, r.client != strings.TrimSuffix(r.want, "+") &&
				strings.ToLower(r.client) != r.want; got != want {
				t.Errorf("%s: request %d: got the stage tools %t, want %t", c.name, i, got, want)
			}
			s.turn(i, "/src/a.go", "text")
			s.now = s.now.Add(c.pause)
		}
	}
}

// The order is kept in each format, as far as the tools are elements of one list.
func TestToolOrderFormats(t *testing.T) {
	for _, c := range []struct {
		format              wire.Format
		body, first, second string
		kept                bool
	}{
		{
			wire.OpenAIChat, `{"model":"m","messages":[{"role":"user","content":"go"}],"tools":[%s]}`,
			`{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}`,
			`{"type":"function","function":{"name":"b"}},{"type":"function","function":{"name":"a"}}`, true,
		},
		{
			wire.OpenAIResponses, `{"model":"m","input":"go","store":false,"tools":[%s]}`,
			`{"type":"function","name":"a"},{"type":"web_search"}`, `{"type":"web_search"},{"type":"function","name":"a"}`, true,
		},
		{
			wire.Gemini, `{"contents":[{"role":"user","parts":[{"text":"go"}]}],"tools":[%s]}`,
			`{"functionDeclarations":[{"name":"a"},{"name":"b"}]}`, `{"functionDeclarations":[{"name":"b"},{"name":"a"}]}`, true,
		},
		{
			wire.Gemini, `{"contents":[{"role":"user","parts":[{"text":"go"}]}],"tools":[%s]}`,
			`{"functionDeclarations":[{"name":"a"},{"name":"b"}]},{"functionDeclarations":[{"name":"c"}]}`,
			`{"functionDeclarations":[{"name":"c"}]},{"functionDeclarations":[{"name":"b"},{"name":"a"}]}`, false,
		},
	} {
		s := newScript(t, Options{Expand: Expand{Mode: stage.Off}}, keeping)
		for i, tools := range []string{c.first, c.second} {
			v, err := wire.Parse(c.format, fmt.Appendf(nil, c.body, tools), nil)
			if err != nil {
				t.Fatal(err)
			}
			x := s.p.Begin(v, s.s, s.now)
			want := tools
			if c.kept {
				want = c.first
			}
			if got := gjson.GetBytes(x.Prompt.Body.Bytes(), "tools").Raw; got != "["+want+"]" {
				t.Errorf("%s, request %d: got %s, want [%s]", c.format, i, got, want)
			}
			x.Commit(&wire.Turn{Text: "Done.", Done: true}, s.now)
		}
	}
}

// Where the upstream refuses edits of tools, they stay in the client's order.
func TestToolOrderRefused(t *testing.T) {
	s := newScript(t, Options{}, keeping)
	s.prompt("Fix the bug.")
	s.tools = list("abc")
	s.send(wire.Turn{Text: "Done.", Done: true})
	s.turn(0, "/src/a.go", "text")
	s.tools = list("bca")
	v, err := wire.Parse(s.format, []byte(s.body()), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := s.p.Begin(v, s.s, s.now)
	if got := toolNames(x.Prompt.Body.Bytes()); got != "abc" {
		t.Errorf("before the refusal: got %s, want abc", got)
	}
	x.Rejected()
	if got := toolNames(x.Prompt.Body.Bytes()); got != "bca" {
		t.Errorf("the request that is sent again: got %s, want bca", got)
	}
	x.Accepted(0)
	x.Commit(&wire.Turn{Text: "Done.", Done: true}, s.now)
	s.tools = list("cba")
	if got := toolNames(s.send(wire.Turn{Text: "Done.", Done: true}).Prompt.Body.Bytes()); got != "cba" {
		t.Errorf("after the refusal: got %s, want cba", got)
	}
}

// The tools stored for a request for a summary have the order in which they were sent.
func TestToolOrderStored(t *testing.T) {
	s := newScript(t, Options{}, keeping)
	for _, tools := range []string{"abc", "bca"} {
		body := `{"model":"m","messages":[{"role":"user","content":"go"}],"tools":[`
		for i, name := range tools {
			if i > 0 {
				body += ","
			}
			body += `{"type":"function","function":{"name":"` + string(name) + `"}}`
		}
		v, err := wire.Parse(wire.OpenAIChat, []byte(body+"]}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.p.Begin(v, s.s, s.now).Commit(&wire.Turn{Text: "Done.", Done: true}, s.now)
		s.s.Lock()
		stored := s.s.Conversation(0).Tools
		s.s.Unlock()
		if got := gjson.GetBytes(stored, "#.function.name").Raw; got != `["a","b","c"]` {
			t.Errorf("%s: got %s, want [a,b,c]", tools, got)
		}
	}
}

// A new system prompt or new tools leave nothing of the history in the cache: folds are free.
func TestPrefixChanged(t *testing.T) {
	for _, c := range []struct {
		name          string
		system, tools string
		rules         pricing.Rules
		want          planner.Epoch
	}{
		{"the same", "You are helpful.", "ab", keeping, planner.NoEpoch},
		{"another system prompt", "It is noon.", "ab", keeping, planner.PrefixChanged},
		{"a tool more", "You are helpful.", "abc", keeping, planner.PrefixChanged},
		{"the same tools in another order", "You are helpful.", "ba", keeping, planner.NoEpoch},
		{"a tool less, perhaps a side request", "It is noon.", "a", keeping, planner.NoEpoch},
		{"a side request without tools", "It is noon.", "", keeping, planner.NoEpoch},
		{"a local server", "It is noon.", "ab", pricing.Rules{Regime: pricing.KV}, planner.NoEpoch},
	} {
		s := newScript(t, Options{Expand: Expand{Mode: stage.Off}}, c.rules)
		s.tools = list("ab")
		s.prompt("Fix the bug.")
		s.run(0, 12, false)
		s.system, s.tools = c.system, list(c.tools)
		x := s.send(wire.Turn{Text: "Done.", Done: true})
		if got := x.Decision; got.Epoch != c.want || (got.Folded > 7) != (c.want != planner.NoEpoch) {
			t.Errorf("%s: got %s, %d folded, want %s", c.name, got.Epoch, got.Folded, c.want)
		}
		// The folds stay, and no further ones are free, also after a side request.
		s.tools = list(cmp.Or(c.tools, "ab"))
		s.turn(50, "/src/other.go", long("other"))
		y := s.send(wire.Turn{Text: "Done.", Done: true})
		if shared, of := prefix(t, x.Prompt.Body.Bytes(), y.Prompt.Body.Bytes()); shared != of || y.Decision.Epoch != planner.NoEpoch {
			t.Errorf("%s: got %d of %d blocks again, epoch %s, want all and none", c.name, shared, of, y.Decision.Epoch)
		}
	}
}

// In chat completions the system prompt is a message, and may be an item in the Responses API. Its change keeps the
// conversation and its folds, as a change of a system prompt elsewhere does.
func TestSystemMessageChanged(t *testing.T) {
	const (
		chat = `{"model":"m","tools":[{"type":"function","function":{"name":"Read"}}],"messages":[{"role":%q,` +
			`"content":"You are helpful. Today is %s."},{"role":"user","content":"Fix the bug."}%s]}`
		chatTurn = `,{"role":"assistant","content":null,"tool_calls":[{"id":"c%[1]d","type":"function","function":` +
			`{"name":"Read","arguments":"{\"file_path\":\"/src/file%[1]d.go\"}"}}]},{"role":"tool","tool_call_id":"c%[1]d","content":%[2]s}`
		responses = `{"model":"m","store":false,"tools":[{"type":"function","name":"Read"}],"input":[{"role":%q,` +
			`"content":"You are helpful. Today is %s."},{"role":"user","content":"Fix the bug."}%s]}`
		responsesTurn = `,{"type":"function_call","call_id":"c%[1]d","name":"Read","arguments":"{\"file_path\":\"/src/file%[1]d.go\"}"}` +
			`,{"type":"function_call_output","call_id":"c%[1]d","output":%[2]s}`
	)
	for _, c := range []struct {
		format           wire.Format
		role, body, turn string
	}{
		{wire.OpenAIChat, "system", chat, chatTurn},
		{wire.OpenAIChat, "developer", chat, chatTurn},
		{wire.OpenAIResponses, "developer", responses, responsesTurn},
	} {
		role := fmt.Sprint(c.format, ", ", c.role)
		s := newScript(t, Options{Expand: Expand{Mode: stage.Off}}, keeping)
		var known *wire.Known
		messages := ""
		send := func(day string) *Transaction {
			body := fmt.Sprintf(c.body, c.role, day, messages)
			v, err := wire.Parse(c.format, []byte(body), func(wire.Hash) *wire.Known { return known })
			if err != nil {
				t.Fatal(err)
			}
			known = v.Known()
			x := s.p.Begin(v, s.s, s.now)
			x.Commit(&wire.Turn{Text: "unrelated", Done: true}, s.now)
			return x
		}
		for i := range 40 {
			send("Monday")
			s.now = s.now.Add(10 * time.Second)
			messages += fmt.Sprintf(c.turn, i, content.Quote(long(fmt.Sprint("f", i))))
		}
		s.now = s.now.Add(2 * keeping.TTL)
		folded := send("Monday")
		s.now = s.now.Add(10 * time.Second)
		x := send("Tuesday")
		stubs := func(x *Transaction) int { return strings.Count(string(x.Prompt.Body.Bytes()), content.StubFrame) }
		if got, want := stubs(x), stubs(folded); got < want || want < 20 {
			t.Errorf("%s: %d folds after the change, want at least the %d before it", role, got, want)
		}
		if !x.req.cached.replaced {
			t.Errorf("%s: the change is not noticed", role)
		}
		if !strings.Contains(string(x.Prompt.Body.Bytes()), "Today is Tuesday.") {
			t.Errorf("%s: the model does not see the change", role)
		}
		quoted := send("Tuesday, and " + repeats + " is a note")
		if got := quoted.req.foreign([]string{repeats}); len(got) > 0 {
			t.Errorf("%s: got %q as ours, which the new system message quotes", role, got)
		}
	}
}
