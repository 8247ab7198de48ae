// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// client drives a store with the requests of one conversation.
type client struct {
	t      *testing.T
	store  *Store
	rules  Switches
	key    string
	group  string
	tenant string
	form   wire.Format
	now    time.Time
}

// open gives the client a store of so many bytes.
func (c *client) open(limit int64) {
	c.store = NewStore(lru.NewPool[string](limit), func() time.Time { return c.now })
}

func newClient(t *testing.T, rules Switches) *client {
	c := &client{t: t, rules: rules, key: "s", group: "g", form: wire.OpenAIChat, now: time.Unix(1e9, 0)}
	c.open(DefaultMemory)
	return c
}

// begin returns an exchange. Its body must be JSON and the same in a second call.
func (c *client) begin(body string) *Transaction {
	c.t.Helper()
	var first *Transaction
	for range 2 {
		x, err := c.store.Begin(Conversation{Session: c.key, Group: c.group, Tenant: c.tenant},
			Request{Format: c.form, Body: []byte(body), Rules: c.rules, At: c.now})
		if err != nil {
			c.t.Fatalf("%v of %s", err, body)
		}
		if !json.Valid(x.Body) {
			c.t.Fatalf("not JSON: %s", x.Body)
		}
		if first != nil && string(first.Body) != string(x.Body) {
			c.t.Fatalf("a retry is\n%s\nafter\n%s", x.Body, first.Body)
		}
		first = x
	}
	return first
}

// send begins and commits an exchange with an answer, and returns the body for the upstream.
func (c *client) send(body string, answer wire.Turn) string {
	c.t.Helper()
	x := c.begin(body)
	answer.Done = true
	x.Commit(&answer, false)
	if again := c.begin(body); string(again.Body) != string(x.Body) {
		c.t.Fatalf("a retry after the answer is\n%s\nafter\n%s", again.Body, x.Body)
	}
	return string(x.Body)
}

func chat(system, tools string, messages ...string) string {
	list := strings.Join(messages, ",")
	if system != "" {
		list = `{"role":"system","content":` + string(quote(system)) + `},` + list
	}
	return `{"model":"m","messages":[` + list + `],"tools":[` + tools + `]}`
}

func toolDef(name, about, schema string) string {
	return fmt.Sprintf(`{"type":"function","function":{"name":%q,"description":%q,"parameters":%s}}`, name, about, schema)
}

var (
	toolA, toolB, toolC = toolDef("A", "does a", `{"type":"object"}`), toolDef("B", "does b", `{"type":"object"}`),
		toolDef("C", "does c", `{"type":"object"}`)
	hello  = `{"role":"user","content":"Hello"}`
	called = `{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",` +
		`"function":{"name":"A","arguments":"{\"x\":1}"}}]}`
	result = `{"role":"tool","tool_call_id":"1","content":"one"}`
)

func wants(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("no %s in\n%s", w, got)
		}
	}
}

func wantsNot(t *testing.T, got string, not ...string) {
	t.Helper()
	for _, w := range not {
		if strings.Contains(got, w) {
			t.Errorf("%s in\n%s", w, got)
		}
	}
}

// Content without a rule keeps the client's own bytes.
func TestNothingToDo(t *testing.T) {
	c := newClient(t, LocalServer)
	for _, body := range []string{
		chat("Be kind.", toolA+","+toolB, hello),
		chat("Be kind.", toolA+","+toolB, hello, called, result),
		` {"messages" : [ {"role":"user","content":"\u00e9 \/ <b>"} ] , "x" : 1.50}`,
	} {
		if got := c.send(body, wire.Turn{}); got != body {
			t.Errorf("%s became\n%s", body, got)
		}
	}
	for _, body := range []string{``, `[]`, `{"messages":[]}`, `{"messages":"x"}`} {
		if _, err := c.store.Begin(Conversation{Session: "s", Group: "g"},
			Request{Format: wire.OpenAIChat, Body: []byte(body), Rules: LocalServer}); err == nil {
			t.Errorf("%q was understood", body)
		}
	}
}

func TestBillingLine(t *testing.T) {
	c := newClient(t, LocalServer)
	c.form = wire.Anthropic
	got := c.send(`{"model":"m","messages":[`+hello+
		`],"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.328.abc; cc_entrypoint=cli; `+
		`cch=12345;"},{"type":"text","text":"You are an agent.","cache_control":{"type":"ephemeral"}}]}`, wire.Turn{})
	wants(t, got, `"system":[{"type":"text","text":"You are an agent."`)
	c = newClient(t, LocalServer)
	got = c.send(chat("x-anthropic-billing-header: cc_version=2.1.197; cch=1;\n\nYou are an agent.", toolA, hello),
		wire.Turn{})
	wants(t, got, `{"role":"system","content":"You are an agent."}`)
	c.rules = Switches{}
	wants(t, string(c.begin(chat("x-anthropic-billing-header: x;\nYou.", toolA, hello)).Body), "billing")
}

func TestSystemMessages(t *testing.T) {
	c := newClient(t, LocalServer)
	system := func(text string) string { return `{"role":"system","content":` + string(quote(text)) + `}` }
	for _, s := range []struct{ name, body, want string }{
		{
			"into the user's text", chat("S", toolA, hello, system("Plan")),
			`{"role":"user","content":"Hello\n\n<system-reminder>\nPlan\n</system-reminder>"}]`,
		},
		{
			"into the result", chat("S", toolA, hello, called, result, system("Plan"), system("More")),
			`"content":"one\n\n<system-reminder>\nPlan\n</system-reminder>\n\n<system-reminder>\nMore\n</system-reminder>"}]`,
		},
		{
			"into a result with parts", chat("S", toolA, hello, called,
				`{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`,
				system("<system-reminder>x</system-reminder>")),
			`{"type":"text","text":"b"},{"type":"text","text":"<system-reminder>x</system-reminder>"}]}]`,
		},
		{
			"behind an answer it is the user's", chat("S", toolA, hello, `{"role":"assistant","content":"Hi"}`, system("Plan"),
				`{"role":"user","content":"Go"}`),
			`{"role":"user","content":"<system-reminder>\nPlan\n</system-reminder>"},{"role":"user","content":"Go"}]`,
		},
		{"an empty one goes", chat("S", toolA, hello, `{"role":"system","content":[]}`), `"Hello"}]`},
		{
			"a counter goes", chat("S", toolA, hello, called, result, system("<total_tokens>1234 tokens left</total_tokens>")),
			`"content":"one"}]`,
		},
	} {
		c.key = s.name
		wants(t, c.send(s.body, wire.Turn{}), s.want)
	}
	c.form = wire.Anthropic
	wants(t, c.send(`{"model":"m","messages":[`+hello+
		`,{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"A","input":{}}]},{"role":"user",`+
		`"content":[{"type":"tool_result","tool_use_id":"1","content":"one"}]},{"role":"system","content":"Plan"}]}`,
		wire.Turn{}),
		`"content":"one\n\n<system-reminder>\nPlan\n</system-reminder>"}]}]`)
}

func TestTokenCounters(t *testing.T) {
	for _, s := range []struct{ text, want string }{
		{"one\n\n<system-reminder>\n<total_tokens>12 tokens left</total_tokens>\n</system-reminder>", "one"},
		{
			"one\n\n<system-reminder>\n<total_tokens>12 tokens " +
				"left</total_tokens>\n</system-reminder>\n\n<system-reminder>\nPlan\n</system-reminder>",
			"one\n\n<system-reminder>\nPlan\n</system-reminder>",
		},
		{"one\n<system-reminder>\nPlan\n</system-reminder>\n<system-reminder><total_tokens>1 tokens " +
			"left</total_tokens></system-reminder>\n", "one\n<system-reminder>\nPlan\n</system-reminder>"},
		{"<system-reminder>Plan and <total_tokens>12 tokens left</total_tokens></system-reminder>", ""},
		{"grep: <system-reminder><total_tokens>1 tokens left</total_tokens></system-reminder> is in a.go", ""},
	} {
		want := s.want
		if want == "" {
			want = s.text
		}
		if got := withoutCounters(s.text); got != want {
			t.Errorf("%q became %q", s.text, got)
		}
	}
	c := newClient(t, LocalServer)
	wants(t, c.send(chat("S", toolA, hello, called,
		`{"role":"tool","tool_call_id":"1","content":"\u00fc\n\n<system-reminder>\n<total_tokens>9 tokens `+
			`left</total_tokens>\n</system-reminder>"}`), wire.Turn{}), `"content":"ü"}`)
}

// TestTokenCountersAgain: a counter in a text of its own is also removed from later requests, which
// reuse the parsed messages.
func TestTokenCountersAgain(t *testing.T) {
	c := newClient(t, LocalServer)
	counted := `{"role":"user","content":[{"type":"text","text":"Go on"},{"type":"text",` +
		`"text":"<system-reminder>\n<total_tokens>9 tokens left</total_tokens>\n</system-reminder>"}]}`
	messages := []string{hello, `{"role":"assistant","content":"Yes?"}`, counted}
	first := c.send(chat("S", toolA, messages...), wire.Turn{Text: "Done."})
	wantsNot(t, first, "tokens left")
	for range 3 {
		messages = append(messages, `{"role":"assistant","content":"Done."}`, counted)
		next := c.send(chat("S", toolA, messages...), wire.Turn{Text: "Done."})
		wantsNot(t, next, "tokens left")
		if begins, _, _ := strings.Cut(first, `],"tools"`); !strings.HasPrefix(next, begins) {
			t.Errorf("%s\ndoes not go on from\n%s", next, first)
		}
		first = next
	}
}

// names returns the tools' names in a body, concatenated.
func names(body string) (all string) {
	for _, n := range gjson.Get(body, "tools.#.function.name").Array() {
		all += n.Str
	}
	return all
}

func TestToolOrder(t *testing.T) {
	c := newClient(t, LocalServer)
	c.send(chat("S", toolA+","+toolC, hello), wire.Turn{})
	more := []string{hello, called, result}
	for _, s := range []struct{ tools, want string }{
		{toolC + "," + toolA, "AC"},
		{toolA + "," + toolB + "," + toolC, "ACB"}, // inserted in the middle
		{toolB + "," + toolC, "ACB"},               // one has vanished
		{toolDef("A", "does a, as the new model does", `{"type":"object"}`) + "," + toolB, "ACB"},
	} {
		got := c.send(chat("S", s.tools, more...), wire.Turn{})
		if names(got) != s.want {
			t.Errorf("tools are %s, want %s", names(got), s.want)
		}
		wantsNot(t, got, "as the new model does")
	}
	got := c.send(chat("S", toolDef("C", "does c", `{"type":"object","required":["y"]}`), more...), wire.Turn{})
	wants(t, got, `"required":["y"]`)
	if names(got) != "ACB" {
		t.Errorf("a tool that takes other arguments: %s", names(got))
	}
	// Another user of the group, in another session, gets the same prefix.
	c.key = "other"
	if got := c.send(chat("S", toolC+","+toolA, `{"role":"user","content":"Other"}`), wire.Turn{}); names(got) != "AC" {
		t.Errorf("another session begins with %s", names(got))
	}
	c.key, c.group = "stranger", "h"
	if got := c.send(chat("S", toolC+","+toolA, hello), wire.Turn{}); names(got) != "CA" {
		t.Errorf("a stranger begins with %s", names(got))
	}
	c.key = "twice"
	if body := chat("S", toolC+","+toolC, hello); c.send(body, wire.Turn{}) != body {
		t.Error("tools of one name were arranged")
	}
}

func TestLateTools(t *testing.T) {
	rules := LocalServer
	rules.LateTools = true
	c := newClient(t, rules)
	c.send(chat("S", toolA+","+toolC, hello), wire.Turn{})
	third := c.send(chat("S", toolA+","+toolB+","+toolC, hello, called, result), wire.Turn{})
	if names(third) != "AC" || strings.Count(third, "<tools>") != 1 {
		t.Errorf("tools %s and %d notes", names(third), strings.Count(third, "<tools>"))
	}
	after := c.send(chat("S", toolA+","+toolB+","+toolC, hello, called, result, strings.Replace(called, `"1"`, `"2"`, 1),
		strings.Replace(result, `"1"`, `"2"`, 1)), wire.Turn{})
	if before, _, _ := strings.Cut(third, `],"tools"`); !strings.HasPrefix(after, before) ||
		strings.Count(after, "<tools>") != 1 {
		t.Errorf("\n%s\ndoes not go on from\n%s", after, third)
	}
	if got := c.send(strings.Replace(chat("S", toolA+","+toolB+","+toolC, hello, called, result), `"tools"`,
		`"tool_choice":{"type":"function","function":{"name":"B"}},"tools"`, 1), wire.Turn{}); names(got) != "ACB" {
		t.Errorf("a tool that must be called is not in front: %s", names(got))
	}
}

const git = "gitStatus: This is the git status at the start of the conversation.\nCurrent branch: main\n\nStatus:\n"

func TestPins(t *testing.T) {
	c := newClient(t, LocalServer)
	first := c.send(chat("You are an agent.\nToday's date: 2026-11-19\n\n"+git+"M a.go\n", toolA, hello), wire.Turn{})
	now := "You are an agent.\nToday's date: 2026-11-20\n\n" + git + "M a.go\nM b.go\n"
	second := c.send(chat(now, toolA, hello, called, result), wire.Turn{})
	prefix, _, _ := strings.Cut(first, `],"tools"`)
	if !strings.HasPrefix(second, prefix) {
		t.Errorf("\n%s\ndoes not go on from\n%s", second, first)
	}
	wants(t, second,
		`"content":"one\n\n<system-reminder>\nWhat this conversation began with no longer holds. It is now:\n\nToday's `+
			`date: 2026-11-20\n\ngitStatus:`, `M b.go\n</system-reminder>"}]`)
	third := c.send(chat(now, toolA, hello, called, result, `{"role":"assistant","content":"Done"}`,
		`{"role":"user","content":"Go on"}`), wire.Turn{})
	if strings.Count(third, "no longer holds") != 1 ||
		!strings.HasPrefix(third, strings.TrimSuffix(second, `],"tools":[`+toolA+`]}`)) {
		t.Errorf("\n%s\ndoes not go on from\n%s", third, second)
	}
	// Any other change is an epoch.
	fourth := c.send(chat("Be brief. "+now, toolA, hello, called, result), wire.Turn{})
	wants(t, fourth, `"content":"Be brief. You are`, `"content":"one"}]`)

	c = newClient(t, LocalServer)
	reminder := func(day string) string {
		return `{"role":"user","content":[{"type":"text","text":"<system-reminder>\n# currentDate\nToday's date is ` + day +
			`.\n\n</system-reminder>"},{"type":"text","text":"Today's date: what is it?"}]}`
	}
	c.send(chat("S", toolA, reminder("Monday")), wire.Turn{})
	got := c.send(chat("S", toolA, reminder("Tuesday"), called, result), wire.Turn{})
	wants(t, got, "Today's date is Monday", `"content":"one\n\n<system-reminder>`, "Today's date is Tuesday.")
	got = c.send(chat("S", toolA, strings.Replace(reminder("Monday"), "what is it", "when is it", 1), called, result),
		wire.Turn{})
	wants(t, got, "when is it")
	wantsNot(t, got, "no longer holds")
}

// TestShapes: a changed date, time, path, UUID or hash in a system text keeps its first value, in
// any wording, and a note near the end reports the new value.
func TestShapes(t *testing.T) {
	for _, c := range []struct{ was, is string }{
		{
			"Conversation started: Thursday, November 26, 2026 05:30 PM",
			"Conversation started: Friday, November 27, 2026 09:30 AM",
		},
		{"Today: 2026-11-26; current working directory: '/a'.", "Today: 2026-11-27; current working directory: '/b'."},
		{"2026-11-26 17:30 (Thursday)", "2026-11-26 17:31 (Thursday)"},
		{"Timestamp: 2026-11-26 17:30:12 UTC", "Timestamp: 2026-11-26 17:31:12 UTC"},
		{
			"Answer well. The current date and time is Thursday, November 26, 2026 5:30 PM.",
			"Answer well. The current date and time is Thursday, November 26, 2026 5:31 PM.",
		},
		{"now 2026-11-26T17:30:12.123Z", "now 2026-11-26T17:31:12.456Z"},
		{"Current working directory: /a", "Current working directory: /b"},
		{"You work in ~/src/one on a Mac.", "You work in ~/src/two on a Mac."},
		{`Folder: C:\src\one`, `Folder: C:\src\two`},
		{"The user said hello on 26 Nov 2026.", "The user said hello on 27 Nov 2026."},
		{"It is 11/26/2026 here.", "It is 11/27/2026 here."},
		{"Am 26.11.2026 um 9:05 Uhr.", "Am 27.11.2026 um 10:15 Uhr."},
		{"Session 1b4e28ba-2fa1-11d2-883f-0016d3cca427 is yours.", "Session 6ba7b810-9dad-11d1-80b4-00c04fd430c8 is yours."},
		{"HEAD is at 3f2a9bc.", "HEAD is at 77d0e1f."},
		{"Deadline: Fri, 8:00 a.m.", "Deadline: Sat, 9:30 a.m."},
		{"Scratch files go to (/tmp/agent-1/work), nowhere else.", "Scratch files go to (/tmp/agent-2/work), nowhere else."},
		{"Started 2026-11-26T17:30:12+01:00 by cron", "Started 2026-11-27T07:30:12+01:00 by cron"},
		{"<cwd>/src/one</cwd>", "<cwd>/src/two</cwd>"},
		{"timestamp=1795714212", "timestamp=1795714272"},
		{"at 1795714212123 ms, or 1795714212.5", "at 1795714272123 ms, or 1795714272.25"},
	} {
		client := newClient(t, LocalServer)
		client.send(chat("Rules.\n"+c.was+"\nMore.", toolA, hello), wire.Turn{})
		got := client.send(chat("Rules.\n"+c.is+"\nMore.", toolA, hello, called, result), wire.Turn{})
		prefix, rest, _ := strings.Cut(strings.ReplaceAll(got, `\\`, `\`), `{"role":"user"`)
		if !strings.Contains(prefix, c.was) || !strings.Contains(rest, c.is) {
			t.Errorf("%s became %s: got %s, want the first in the system text and the second told", c.was, c.is, got)
		}
	}
	for _, c := range []struct{ was, is string }{
		{"Use at most 5 tools.", "Use at most 6 tools."},
		{"Answer in 1000000 words.", "Answer in 2000000 words."},
		{"Account 1295714212.", "Account 1295714213."},
		{"Account 179571421299.", "Account 179571421298."},
		{"Pick one and/or two.", "Pick one and/nor two."},
		{"Version 1.2 applies.", "Version 1.3 applies."},
		{"See https://a.example/x for more.", "See https://b.example/x for more."},
		{"Be effaced.", "Be defaced."},
	} {
		client := newClient(t, LocalServer)
		client.send(chat("Rules.\n"+c.was+"\nMore.", toolA, hello), wire.Turn{})
		got := client.send(chat("Rules.\n"+c.is+"\nMore.", toolA, hello, called, result), wire.Turn{})
		if prefix, _, _ := strings.Cut(got, `{"role":"user"`); !strings.Contains(prefix, c.is) {
			t.Errorf("%s became %s: got %s, want the system text as it is now", c.was, c.is, got)
		}
	}
}

// TestShapesOfOpening: opening user messages keep their first values, too, in any message and
// wording, once the model has answered. Before the first answer, another path is another task.
func TestShapesOfOpening(t *testing.T) {
	user := func(text string) string { return `{"role":"user","content":"` + text + `"}` }
	for name, c := range map[string]struct{ was, is []string }{
		"own words": {[]string{user("It is 9:30. Mend /src/a.go")}, []string{user("It is 9:31. Mend /src/b.go")}},
		"a second message": {
			[]string{user("Rules"), user("cwd: /src/one"), user("Go")},
			[]string{user("Rules"), user("cwd: /src/two"), user("Go")},
		},
		"japanese": {[]string{user("今日は2026-11-26です")}, []string{user("今日は2026-11-27です")}},
	} {
		client := newClient(t, LocalServer)
		client.send(chat("S", toolA, c.was...), wire.Turn{})
		second := client.send(chat("S", toolA, append(c.was, called, result)...), wire.Turn{})
		third := client.send(chat("S", toolA, append(c.is, called, result, `{"role":"assistant","content":"Done"}`,
			user("Go on"))...), wire.Turn{})
		prefix, _, _ := strings.Cut(second, `],"tools"`)
		if notes := strings.Count(third, "no longer holds"); !strings.HasPrefix(third, prefix) || notes != 1 {
			t.Errorf("%s: got %s told %d times, want it to go on from %s and one telling", name, third, notes, prefix)
		}
		client = newClient(t, LocalServer)
		client.send(chat("S", toolA, c.was...), wire.Turn{})
		if got, want := client.send(chat("S", toolA, c.is...), wire.Turn{}), chat("S", toolA, c.is...); got != want {
			t.Errorf("%s: another task became %s, want %s", name, got, want)
		}
	}
}

// TestSurveyedOnce: a text is split into its places only when a conversation first sends it.
func TestSurveyedOnce(t *testing.T) {
	c := newClient(t, LocalServer)
	c.send(chat("On 2026-11-26", toolA, hello), wire.Turn{})
	now := chat("On 2026-11-27", toolA, hello, called, result)
	a := c.begin(now)
	a.Commit(&wire.Turn{Done: true}, false)
	b := c.begin(now)
	if len(a.next.seen) != 1 || len(b.next.seen) != 1 || a.next.seen[0].surroundings != b.next.seen[0].surroundings ||
		a.next.first[0].surroundings != b.next.first[0].surroundings {
		t.Errorf("got %d and %d texts, surveyed again, want the one that differs from the first", len(a.next.seen),
			len(b.next.seen))
	}
}

// TestOrderOfMembers: a tool with its members in another order is the same tool, in later requests
// and in other conversations of the group.
func TestOrderOfMembers(t *testing.T) {
	was := toolDef("A", "does a",
		`{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"number","default":1.0}},"required":["x","y"]}`)
	is := toolDef("A", "does a",
		`{"required":["y","x"],"properties":{"y":{"default":1.0,"type":"number"},"x":{"type":"string"}},"type":"object"}`)
	other := toolDef("A", "does a", `{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}`)
	c := newClient(t, LocalServer)
	c.send(chat("S", was, hello), wire.Turn{})
	for range 2 {
		wants(t, c.send(chat("S", is, hello, called, result), wire.Turn{}), was)
	}
	wants(t, c.send(chat("S", other, hello, called, result), wire.Turn{}), other)
	c.key = "another"
	wants(t, c.send(chat("S", is, hello), wire.Turn{}), was)
}

func TestForms(t *testing.T) {
	c := newClient(t, LocalServer)
	got := c.send(chat("S", toolA, `{"role":"user","content":[{"type":"text","text":"Hello"}]}`, called,
		`{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"one"}]}`), wire.Turn{})
	wants(t, got, hello, result)
	keeps := []string{`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url",` +
		`"image_url":{"url":"data:,"}}]}`, `{"role":"user","content":[{"type":"text","text":"a","x":1}]}`}
	for i, m := range keeps {
		c.key = fmt.Sprint(i)
		wants(t, c.send(chat("S", toolA, m), wire.Turn{}), m)
	}
}

func TestDivergence(t *testing.T) {
	none := Switches{}
	for _, s := range []struct {
		name  string
		body  string
		cause Cause
	}{
		{"goes on", chat("S", toolA+","+toolB, hello, called, result, hello), ""},
		{"order", chat("S", toolB+","+toolA, hello, called, result, hello), CauseToolOrder},
		{"added", chat("S", toolA+","+toolC+","+toolB, hello, called, result, hello), CauseToolAdded},
		{"removed", chat("S", toolB, hello, called, result, hello), CauseToolRemoved},
		{"changed", chat("S", toolA+","+toolDef("B", "does c", `{}`), hello, called, result, hello), CauseToolChanged},
		{"system", chat("T", toolA+","+toolB, hello, called, result, hello), CauseSystem},
		{"history", chat("S", toolA+","+toolB, hello, called, strings.Replace(result, "one", "two", 1), hello), CauseHistory},
		{"answer", chat("S", toolA+","+toolB, hello, strings.Replace(called, ":1}", ":2}", 1), result, hello), CauseBranch},
		{"shorter", chat("S", toolA+","+toolB, hello, called), CauseShorter},
	} {
		c := newClient(t, none)
		c.send(chat("S", toolA+","+toolB, hello, called, result), wire.Turn{})
		x := c.begin(s.body)
		switch {
		case s.cause == "" && x.Divergence != nil, s.cause != "" && (x.Divergence == nil || x.Divergence.Cause != s.cause):
			t.Errorf("%s: %+v", s.name, x.Divergence)
		case s.cause == "" && (x.Common < 0.5 || x.Common >= 1):
			t.Errorf("%s: %v in common", s.name, x.Common)
		}
	}
	c := newClient(t, none)
	c.send(chat("S", toolA, hello), wire.Turn{Usage: wire.Usage{Uncached: 1000, Output: 10, Reported: true}})
	x := c.begin(chat("S", toolA, hello, `{"role":"assistant","content":"Hi"}`, hello))
	x.Commit(&wire.Turn{Done: true, Usage: wire.Usage{Uncached: 1000, Read: 20, Reported: true}}, true)
	if x.Divergence == nil || x.Divergence.Cause != CauseEvicted {
		t.Errorf("a cache that was lost: %+v", x.Divergence)
	}
	if r := c.store.Report("s"); len(r) != 1 || len(r[0].Divergences) != 1 {
		t.Errorf("%+v", r)
	}
}

// TestConversationsApart: a side request in the same session, a branch and a refusal leave the
// conversation unchanged.
func TestConversationsApart(t *testing.T) {
	c := newClient(t, LocalServer)
	c.send(chat("S", toolA+","+toolB, hello), wire.Turn{Calls: []wire.Call{{Name: "A", Arguments: `{"x": 1}`}}})
	side := `{"model":"m","messages":[{"role":"system","content":"Titles"},` + hello + `]}`
	if got := c.send(side, wire.Turn{Text: "A title"}); got != side {
		t.Errorf("a side request became %s", got)
	}
	got := c.send(chat("S", toolB+","+toolA, hello, called, result), wire.Turn{})
	wants(t, got, `{\"x\": 1}`)
	if names(got) != "AB" {
		t.Error("a side request made the conversation forget")
	}
	c.begin(chat("S", toolB+","+toolA, hello, called, result, hello)).Freeze()
	if body := chat("S", toolB+","+toolA, hello, called, result, hello); c.send(body, wire.Turn{}) != body {
		t.Error("a conversation that was refused is still overlaid")
	}
}
