// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// unbound are rules without bound thinking.
var unbound = pricing.Rules{
	Regime: pricing.Markers, Markers: 4, LookBack: 20, CollapseRuns: true, KeepsThinking: true,
	Write: 1.25, Write1h: 2, Read: 0.1, TTL: 5 * time.Minute, LongTTL: time.Hour,
}

// result adds a tool call and its result with this content and further members, in JSON.
func (s *script) result(n int, name, input, content string) {
	s.answer = wire.Turn{Calls: []wire.Call{{ID: fmt.Sprint("t", n), Name: name, Arguments: input}}, Done: true}
	s.add(fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"t%d","name":%q,"input":%s}]}`, n,
		name, input))
	s.add(fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":%s}]}`, n, content))
}

// admitting returns options with admission as the only stage.
func admitting(p Policy) Options {
	return Options{
		Policy: p, Prune: Prune{Mode: stage.Off}, CompactToolResults: CompactToolResults{Mode: stage.Off},
		StripNarration: StripNarration{Mode: stage.Off}, StripThinking: StripThinking{Mode: stage.Off},
		Planner: Planner{FoldInputs: new(false)},
	}
}

const readInput = `{"file_path":"/src/a.go"}`

// readFile returns a file of some lines as a tool shows it.
func readFile(lines int) string {
	var s strings.Builder
	for i := range lines {
		fmt.Fprintf(&s, "%6d→\tline number %d of a file \n", i+1, i+1)
	}
	return s.String()
}

func read(lines int) string { return string(content.Quote(readFile(lines))) }

// The sent prompt only grows at its end: a result is edited once, before it is first sent, and the
// edit is replayed.
func TestAdmissionIsReplayed(t *testing.T) {
	for _, policy := range []Policy{CostAware, Eager} {
		s := newScript(t, admitting(policy), unbound)
		s.prompt("Fix the bug.")
		s.send(wire.Turn{Text: "I read.", Done: true})
		var before *Transaction
		for i := range 8 {
			s.result(i, "Read", fmt.Sprintf(`{"file_path":"/src/%d.go"}`, i), read(40+i))
			x := s.send(s.answer)
			if got := count(x, stage.Admission); got != i+1 {
				t.Fatalf("%s: request %d: %d results admitted", policy, i, got)
			}
			if !strings.Contains(string(x.Prompt.Body.Bytes()), `"1→\tline number 1 of a file \n2→`) {
				t.Fatalf("%s: request %d: the padding stays", policy, i)
			}
			if before != nil {
				if shared, of := prefix(t, before.Prompt.Body.Bytes(), x.Prompt.Body.Bytes()); shared != of {
					t.Fatalf("%s: request %d: %d of %d blocks stay", policy, i, shared, of)
				}
			}
			before = x
		}
	}
}

// Another process sends the same bytes.
func TestAdmissionAfterRestart(t *testing.T) {
	bound := binding
	bound.MinTokens = 0
	for _, rules := range []pricing.Rules{unbound, bound} {
		s := newScript(t, admitting(CostAware), rules)
		s.prompt("Fix the bug.")
		s.send(wire.Turn{Text: "I read.", Done: true})
		for i := range 4 {
			s.turn(i, fmt.Sprintf("/src/%d.go", i), readFile(40+i), "thought")
			s.send(s.answer)
		}
		s.turn(9, "/src/1.go", readFile(41), "thought") // the same as in turn 1
		a := s.send(wire.Turn{})
		again := newScript(t, admitting(CostAware), rules)
		again.messages = s.messages
		b := again.send(wire.Turn{Done: true})
		if string(a.Prompt.Body.Bytes()) != string(b.Prompt.Body.Bytes()) {
			t.Errorf("binds thinking %t: not the same after a restart", rules.BindsThinking)
		}
		if count(b, stage.Admission) != 5 || !strings.Contains(string(b.Prompt.Body.Bytes()),
			"[llm_cache: same content as the result of Read /src/1.go above (t1), 41 lines]") {
			t.Errorf("binds thinking %t: %v\n%s", rules.BindsThinking, b.Prompt.Fired, b.Prompt.Body.Bytes())
		}
	}
}

// Blocks sent unmodified stay unmodified.
func TestAdmissionLeavesForwardedResults(t *testing.T) {
	off := admitting(CostAware)
	off.Admission.Mode = stage.Off
	s := newScript(t, off, unbound)
	s.prompt("Fix the bug.")
	s.send(wire.Turn{Text: "I read.", Done: true})
	s.result(0, "Read", readInput, read(40))
	if x := s.send(s.answer); x.Prompt.Edited {
		t.Fatalf("edited although off: %v", x.Prompt.Fired)
	}
	s.p = New(admitting(CostAware), s.p.rules)
	s.result(1, "Read", readInput, read(50))
	x := s.send(s.answer)
	if count(x, stage.Admission) != 1 || !strings.Contains(string(x.Prompt.Body.Bytes()), `"     1→\tline`) ||
		!strings.Contains(string(x.Prompt.Body.Bytes()), `"1→\tline`) {
		t.Errorf("%v\n%s", x.Prompt.Fired, x.Prompt.Body.Bytes())
	}
}

func TestAdmissionIsObserved(t *testing.T) {
	s := newScript(t, admitting(Observe), unbound)
	s.prompt("Fix the bug.")
	s.result(0, "Read", readInput, read(40))
	x := s.send(s.answer)
	if x.Prompt.Edited || string(x.Prompt.Body.Bytes()) != s.body() || count(x, stage.Admission) != 1 ||
		x.Prompt.SentTokens >= x.Prompt.OriginalTokens {
		t.Errorf("edited %t, %v, %d of %d tokens", x.Prompt.Edited, x.Prompt.Fired, x.Prompt.SentTokens,
			x.Prompt.OriginalTokens)
	}
}

// Each request contains one result; the table holds its sent form.
func TestAdmissionOfForms(t *testing.T) {
	repeated := strings.Repeat("ok  \texample.com/shop/money\t0.01s\n", 40)
	for _, c := range []struct {
		name, tool, input, content string
		want                       string // in the body, "" without an edit
	}{
		{
			"string", "Bash", `{"command":"make"}`, string(content.Quote(repeated)),
			`"content":"ok  \texample.com/shop/money\t0.01s\n[llm_cache: 38 lines of passing tests left out]\nok  ` +
				`\texample.com/shop/money\t0.01s\n"`,
		},
		{
			"parts", "Bash", `{"command":"make"}`,
			`[ {"text": ` + string(content.Quote(repeated)) +
				`, "type": "text"}, {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}, ` +
				`{"type":"text","text":"short"} ]`,
			`[ {"text": "ok  \texample.com/shop/money\t0.01s\n[llm_cache: 38 lines of passing tests left out]\nok  ` +
				`\texample.com/shop/money\t0.01s\n", "type": "text"}, {"type":"image","source":{"type":"base64",` +
				`"media_type":"image/png","data":"AA=="}}, {"type":"text","text":"short"} ]`,
		},
		{"unknown tool", "mcp__x__frobnicate", `{}`, string(content.Quote(repeated)), ""},
		{"a file keeps its lines", "Read", readInput, string(content.Quote(repeated)), ""},
		{"printed file", "Bash", `{"command":"cd /src && cat a.txt"}`, string(content.Quote(repeated)), ""},
		{"short", "Bash", `{"command":"make"}`, string(content.Quote(strings.Repeat("x\n", 100))), ""},
		{
			"escapes in JSON", "Bash", `{"command":"make"}`, `"` + strings.Repeat(`=== RUN   \u00e9 \ud83d\ude00 <b>\n`, 20) +
				`"`,
			`"=== RUN   é 😀 <b>\n[llm_cache: 18 lines of passing tests left out]\n=== RUN   é 😀 <b>\n"`,
		},
	} {
		s := newScript(t, admitting(CostAware), unbound)
		s.prompt("Fix the bug.")
		s.result(0, c.tool, c.input, c.content)
		switch x := s.send(s.answer); {
		case c.want == "" && x.Prompt.Edited:
			t.Errorf("%s: edited: %s", c.name, x.Prompt.Body.Bytes())
		case !strings.Contains(string(x.Prompt.Body.Bytes()), c.want):
			t.Errorf("%s: got %s", c.name, x.Prompt.Body.Bytes())
		}
	}
}

// A pointer refers only to a result that the upstream receives.
func TestRereads(t *testing.T) {
	const pointer = "[llm_cache: same content as the result of Read /src/a.go above (t0), 40 lines]"
	s := newScript(t, admitting(CostAware), unbound)
	s.prompt("Fix the bug.")
	s.send(wire.Turn{Text: "I read.", Done: true})
	s.result(0, "Read", readInput,
		string(content.Quote(readFile(40)+"\n<system-reminder>\n100 tokens left\n</system-reminder>")))
	s.send(s.answer)
	s.result(1, "Read", readInput,
		string(content.Quote(readFile(40)+"\n<system-reminder>\n90 tokens left\n</system-reminder>\n")))
	x := s.send(s.answer)
	if !strings.Contains(string(x.Prompt.Body.Bytes()), pointer) {
		t.Fatalf("no pointer: %s", x.Prompt.Body.Bytes())
	}
	s.result(2, "Read", readInput, read(41)) // another content
	s.result(3, "Read", readInput, read(40)) // points to the first, not to the pointer
	x = s.send(s.answer)
	if n := strings.Count(string(x.Prompt.Body.Bytes()), pointer); n != 2 {
		t.Fatalf("%d pointers: %s", n, x.Prompt.Body.Bytes())
	}
	// After a fold of the first result, the next one is sent whole.
	conversation := conversationOf(t, s)
	for i := range conversation.States {
		if st := &conversation.States[i]; st.Edit != nil && st.Content != 0 &&
			!strings.Contains(string(st.Edit.Value), "same content") && strings.Contains(string(st.Edit.Value), "tokens left") {
			st.Edit = &sessioncache.Edit{Stage: stage.Prune, Op: wire.OpReplace, Value: []byte(`"[pruned]"`)}
		}
	}
	s.result(4, "Read", readInput, read(40))
	x = s.send(s.answer)
	if n := strings.Count(string(x.Prompt.Body.Bytes()), pointer); n != 2 || !strings.Contains(string(x.Prompt.Body.Bytes()), "[pruned]") {
		t.Fatalf("%d pointers: %s", n, x.Prompt.Body.Bytes())
	}
	s.result(5, "Read", readInput, read(40))
	if x = s.send(s.answer); !strings.Contains(string(x.Prompt.Body.Bytes()), "above (t4), 40 lines]") {
		t.Fatalf("no pointer to the last: %s", x.Prompt.Body.Bytes())
	}
}

// A prompt below the provider's minimum is not shortened: it would stay uncached for longer.
func TestAdmissionBelowTheMinimum(t *testing.T) {
	rules := unbound
	rules.MinTokens = 1024
	s := newScript(t, admitting(CostAware), rules)
	s.prompt("Fix the bug.")
	s.send(wire.Turn{Text: "I read.", Done: true})
	s.result(0, "Read", readInput, read(60))
	if x := s.send(s.answer); x.Prompt.Edited {
		t.Errorf("edited: %v", x.Prompt.Fired)
	}
	s.result(1, "Bash", `{"command":"echo"}`, string(content.Quote(strings.Repeat("a line that says something\n", 200))))
	s.send(s.answer)
	s.result(2, "Read", readInput, read(60))
	if x := s.send(s.answer); count(x, stage.Admission) == 0 {
		t.Errorf("not edited: %s", x.Prompt.Body.Bytes())
	}
}

// A file read loses the lines that earlier reads or writes show, except for the ends of each run.
func TestOverlaps(t *testing.T) {
	changed := func(from, to, line int) string { // as readFile, with one line changed
		var out strings.Builder
		for l := from; l <= to; l++ {
			if l == line {
				fmt.Fprintf(&out, "%6d→changed\n", l)
			} else {
				fmt.Fprintf(&out, "%6d→line number %d of a file\n", l, l)
			}
		}
		return out.String()
	}
	s := newScript(t, admitting(CostAware), unbound)
	s.prompt("Fix the bug.")
	s.send(wire.Turn{Text: "I read.", Done: true})
	s.result(0, "Read", readInput, string(content.Quote(changed(1, 80, 0))))
	s.send(s.answer)
	s.result(1, "Read", readInput, string(content.Quote(changed(1, 90, 40))))
	x := s.send(s.answer)
	want := `1→line number 1 of a file\n[llm_cache: 37 lines as in the result of Read /src/a.go above (t0)]\n39→line ` +
		`number 39 of a file\n40→changed\n` +
		`41→line number 41 of a file\n[llm_cache: 38 lines as in the result of Read /src/a.go above (t0)]\n80→line number ` +
		`80 of a file\n81→`
	if !strings.Contains(string(x.Prompt.Body.Bytes()), want) {
		t.Fatalf("got %s", x.Prompt.Body.Bytes())
	}
	// A read with such a note shows only its sent lines to later reads.
	s.result(2, "Read", readInput, string(content.Quote(changed(20, 90, 40))))
	x = s.send(s.answer)
	if n := strings.Count(string(x.Prompt.Body.Bytes()), "as in the result of Read /src/a.go above (t0)]"); n != 4 ||
		!strings.Contains(string(x.Prompt.Body.Bytes()), "[llm_cache: 18 lines as in") {
		t.Fatalf("%d notes: %s", n, x.Prompt.Body.Bytes())
	}
	// Another file shows no line of this one.
	s.result(3, "Read", `{"file_path":"/src/b.go"}`, string(content.Quote(changed(1, 70, 0))))
	x = s.send(s.answer)
	if n := strings.Count(string(x.Prompt.Body.Bytes()), "as in the result"); n != 4 {
		t.Fatalf("%d notes: %s", n, x.Prompt.Body.Bytes())
	}
	// After a fold of the first read, the next one is sent whole.
	conversation := conversationOf(t, s)
	for i := range conversation.States {
		if st := &conversation.States[i]; st.Class == sessioncache.ClassRead && st.Turn < 3 && st.Content != 0 && !st.Relies {
			st.Edit = &sessioncache.Edit{Stage: stage.Prune, Op: wire.OpReplace, Value: []byte(`"[pruned]"`)}
		}
	}
	s.result(4, "Read", readInput, string(content.Quote(changed(1, 80, 40))))
	x = s.send(s.answer)
	if n := strings.Count(string(x.Prompt.Body.Bytes()), "as in the result of Read /src/a.go above (t0)]"); n != 4 ||
		!strings.Contains(string(x.Prompt.Body.Bytes()), "[pruned]") {
		t.Fatalf("%d notes: %s", n, x.Prompt.Body.Bytes())
	}
}

// A read relies on the text that a call wrote, not on the text that it replaced.
func TestOverlapsOfWrittenFiles(t *testing.T) {
	var text, numbered strings.Builder
	for l := range 60 {
		fmt.Fprintf(&text, "a line of code, %d\n", l)
		fmt.Fprintf(&numbered, "%d\ta line of code, %d\n", l+1, l)
	}
	for tool, input := range map[string]string{
		"Write": `{"file_path":"/src/a.go","content":` + string(content.Quote(text.String())) + `}`,
		"Edit":  `{"file_path":"/src/a.go","old_string":` + string(content.Quote(text.String())) + `,"new_string":"none"}`,
	} {
		s := newScript(t, admitting(CostAware), unbound)
		s.prompt("Fix the bug.")
		s.send(wire.Turn{Text: "I write.", Done: true})
		s.result(0, tool, input, `"done"`)
		s.send(s.answer)
		s.result(1, "Read", readInput, string(content.Quote(numbered.String())))
		x := s.send(s.answer)
		if got := strings.Contains(string(x.Prompt.Body.Bytes()),
			"58 lines as in the call of Write /src/a.go above (t0)]"); got != (tool == "Write") {
			t.Errorf("%s: %s", tool, x.Prompt.Body.Bytes())
		}
	}
}

// The call of an edit loses the replaced text except its first and last line, in every form of
// calls.
func TestReplaced(t *testing.T) {
	var text strings.Builder
	for l := range 12 {
		fmt.Fprintf(&text, "a line of code, %d\n", l)
	}
	old := string(content.Quote(text.String()))
	const short = `"a line of code, 0\n[llm_cache: 10 lines that this call has replaced]\na line of code, 11\n"`
	patch := "*** Begin Patch\n*** Update File: a.go\n@@\n keep\n-" + strings.ReplaceAll(strings.TrimSpace(text.String()),
		"\n", "\n-") + "\n+new\n*** End Patch\n"
	const shortPatch = `@@\n keep\n-a line of code, 0\n-[llm_cache: 10 lines that this call has replaced]\n-a line of ` +
		`code, 11\n+new\n*** End Patch`
	for _, c := range []struct {
		name, tool, input, result string
		want                      string // in the body, "" without an edit
	}{
		{
			"edit", "Edit", `{"file_path":"/src/a.go","old_string":` + old + `,"new_string":` + old + `}`, `"done"`,
			`{"file_path":"/src/a.go","old_string":` + short + `,"new_string":` + old + `}`,
		},
		{"several", "MultiEdit", `{"file_path":"/src/a.go","edits":[{"old_string":` + old +
			`,"new_string":"a"},{"old_string":"b","new_string":"c"}]}`, `"done"`, `[{"old_string":` + short +
			`,"new_string":"a"},{"old_string":"b","new_string":"c"}]`},
		{"patch", "apply_patch", `{"input":` + string(content.Quote(patch)) + `}`, `"done"`, shortPatch},
		{"failed", "Edit", `{"file_path":"/src/a.go","old_string":` + old + `,"new_string":"b"}`, `"no such lines"`, ""},
		{
			"few lines", "Edit", `{"file_path":"/src/a.go","old_string":"` + strings.Repeat("x", 500) + `","new_string":"b"}`,
			`"done"`, "",
		},
		{"written", "Write", `{"file_path":"/src/a.go","content":` + old + `}`, `"done"`, ""},
		{"no edit", "Bash", `{"command":"true","old_string":` + old + `}`, `"done"`, ""},
	} {
		s := newScript(t, admitting(CostAware), unbound)
		s.prompt("Fix the bug.")
		s.send(wire.Turn{Text: "I edit.", Done: true})
		s.result(0, c.tool, c.input, c.result)
		if c.name == "failed" {
			last := &s.messages[len(s.messages)-1]
			*last = strings.Replace(*last, `"type":"tool_result"`, `"type":"tool_result","is_error":true`, 1)
		}
		x := s.send(s.answer)
		if c.want == "" && x.Prompt.Edited || !strings.Contains(string(x.Prompt.Body.Bytes()), c.want) {
			t.Errorf("%s: got %s", c.name, x.Prompt.Body.Bytes())
		}
		sent, _, _ := strings.Cut(string(x.Prompt.Body.Bytes()), `,"cache_control"`)
		s.result(1, "Bash", `{"command":"true"}`, `"ok"`)
		if x = s.send(s.answer); !strings.HasPrefix(string(x.Prompt.Body.Bytes()), sent) {
			t.Errorf("%s: not the same again: %s", c.name, x.Prompt.Body.Bytes())
		}
	}
}

// Thinking after a call may be bound to the original call.
func TestReplacedInFrontOfThinking(t *testing.T) {
	edit := `{"type":"tool_use","id":"t0","name":"Edit","input":{"file_path":"/src/a.go","old_string":` +
		string(content.Quote(strings.Repeat("a line of code\n", 20))) + `,"new_string":"b"}}`
	for name, content := range map[string]string{
		"in front": `{"type":"thinking","thinking":"hm","signature":"s"},` + edit,
		"behind":   edit + `,{"type":"thinking","thinking":"hm","signature":"s"}`,
	} {
		s := newScript(t, admitting(CostAware), unbound)
		s.prompt("Fix the bug.")
		s.send(wire.Turn{Text: "I edit.", Done: true})
		s.add(`{"role":"assistant","content":[` + content + `]}`)
		s.add(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t0","content":"done"}]}`)
		if x := s.send(wire.Turn{}); x.Prompt.Edited != (name == "in front") {
			t.Errorf("%s: %s", name, x.Prompt.Body.Bytes())
		}
	}
}

// A note that the model copies into a call is found; similar text is not.
func TestNotesAreNotWritten(t *testing.T) {
	s := newScript(t, admitting(CostAware), unbound)
	s.prompt("Fix the bug.")
	s.send(wire.Turn{Text: "I edit.", Done: true})
	s.result(0, "Edit", `{"file_path":"/src/a.go","old_string":`+
		string(content.Quote(strings.Repeat("a line of code\n", 20)))+`,"new_string":"b"}`, `"done"`)
	x := s.send(s.answer)
	for text, want := range map[string]bool{
		"first\n[llm_cache: 18 lines that this call has replaced]\nlast":         true,
		"[llm_cache: and then [llm_cache: 18 lines that this call has replaced]": true,
		"[llm_cache: 17 lines that this call has replaced]":                      false,
		"[llm_cache: 18 lines that this":                                         false,
		"18 lines that this call has replaced]":                                  false,
	} {
		p := intercept.Part{Name: "Write", Arguments: `{"content":` + string(content.Quote(text)) + `}`}
		if got := x.Answerer.Misled(p.Arguments); got != want {
			t.Errorf("%q: %t", text, got)
		} else if got {
			if x.Answerer.refuse(&p); !p.Failed ||
				!strings.Contains(p.Result, "[llm_cache: 18 lines that this call has replaced]") {
				t.Errorf("%q is answered by %q", text, p.Result)
			}
		}
	}
}

// A local server caches its own responses.
func TestReplacedOnABox(t *testing.T) {
	s := newScript(t, admitting(CostAware), pricing.Rules{Regime: pricing.KV, Write: 1})
	s.prompt("Fix the bug.")
	s.send(wire.Turn{Text: "I edit.", Done: true})
	s.result(0, "Edit", `{"file_path":"/src/a.go","old_string":`+
		string(content.Quote(strings.Repeat("a line of code\n", 20)))+`,"new_string":"b"}`, `"done"`)
	if x := s.send(s.answer); x.Prompt.Edited {
		t.Errorf("got %s", x.Prompt.Body.Bytes())
	}
}

// conversationOf returns the conversation that the script's messages continue.
func conversationOf(t *testing.T, s *script) *sessioncache.Conversation {
	t.Helper()
	v, err := wire.Parse(s.format, []byte(s.body()), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.s.Lock()
	defer s.s.Unlock()
	return s.s.Match(v).Conversation
}

// A result with a pointer to it counts as referred to, and is not folded at once.
func TestRereadKeepsWhatItPointsTo(t *testing.T) {
	s := newScript(t, Options{}, unbound)
	s.prompt("Fix the bug.")
	s.send(wire.Turn{Text: "I read.", Done: true})
	s.result(0, "Read", readInput, read(200))
	for i := 1; i < 9; i++ {
		s.send(wire.Turn{Text: "unrelated words", Done: true})
		s.result(i, "Bash", `{"command":"true"}`, `"ok"`)
	}
	s.send(wire.Turn{Text: "unrelated words", Done: true})
	s.result(9, "Read", readInput, read(200))
	s.now = s.now.Add(time.Hour) // cold: every unused block may be folded
	x := s.send(wire.Turn{})
	if !strings.Contains(string(x.Prompt.Body.Bytes()), "same content as the result of Read") ||
		!strings.Contains(string(x.Prompt.Body.Bytes()), "line number 100 of a file") {
		t.Errorf("%v\n%s", x.Prompt.Fired, x.Prompt.Body.Bytes())
	}
}
