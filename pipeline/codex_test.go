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
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// responsesTurns is a conversation of Codex: reasoning, a sentence and a call in each response.
type responsesTurns struct {
	sent  int // number of requests
	t     *testing.T
	p     *Pipeline
	s     *sessioncache.Session
	now   time.Time
	items []string
}

func newResponses(t *testing.T, o Options, rules pricing.Rules) *responsesTurns {
	t.Helper()
	script := newScript(t, o, rules)
	return &responsesTurns{t: t, p: script.p, s: script.s, now: script.now, items: []string{
		`{"type":"additional_tools","role":"developer","tools":[{"type":"custom","name":"exec"}]}`,
	}}
}

func (r *responsesTurns) prompt(text string) {
	r.items = append(r.items, fmt.Sprintf(`{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}`,
		text))
}

// turn adds a response that runs a command, and its output as Codex wraps it.
func (r *responsesTurns) turn(n int, command, output string) {
	wrapped := fmt.Sprintf(`{"chunk_id":"%06x","wall_time_seconds":%d.5,"exit_code":0,"output":%s}`, n*7919, n,
		content.Quote(output))
	r.items = append(r.items,
		fmt.Sprintf(`{"type":"reasoning","id":"rs_%d","summary":[],"content":null,"encrypted_content":"%s%d"}`, n,
			strings.Repeat("g", 100), n),
		fmt.Sprintf(`{"type":"message","id":"msg_%d","role":"assistant","content":[{"type":"output_text","text":"Let me `+
			`look."}]}`, n),
		fmt.Sprintf(`{"type":"custom_tool_call","id":"ctc_%d","call_id":"c%d","name":"exec","input":%s}`, n, n,
			content.Quote("text(await tools.exec_command({cmd: "+string(content.Quote(command))+"}));")),
		fmt.Sprintf(`{"type":"custom_tool_call_output","id":"ctco_%d","call_id":"c%d","output":[{"type":"input_text",`+
			`"text":"Script completed\nWall time %d.1 seconds\nOutput:\n"},{"type":"input_text","text":%s}]}`, n, n, n,
			content.Quote(wrapped)),
	)
}

func (r *responsesTurns) final() {
	r.items = append(r.items, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}`)
}

// send sends the next request, and checks the invariants of every sent body.
func (r *responsesTurns) send(members string) *Transaction {
	r.t.Helper()
	body := `{"model":"m","input":[` + strings.Join(r.items, ",") + `]` + members + `}`
	v, err := wire.Parse(wire.OpenAIResponses, []byte(body), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	x := r.p.Begin(v, r.s, r.now)
	if x.Prompt.Err != nil {
		r.t.Fatal(x.Prompt.Err)
	}
	sent, err := wire.Parse(wire.OpenAIResponses, x.Prompt.Body.Bytes(), nil)
	if err != nil {
		r.t.Fatalf("not readable: %v: %s", err, x.Prompt.Body.Bytes())
	}
	if _, refused := pricing.NewSimulator(pricing.SimulatorConfig{}).Begin(pricing.Call{
		View: sent,
		At:   r.now,
	}); refused != nil {
		r.t.Fatalf("refused: %v", refused)
	}
	if a, b := strings.Count(body, `"encrypted_content"`),
		strings.Count(string(x.Prompt.Body.Bytes()), `"encrypted_content"`); a != b {
		r.t.Fatalf("%d of %d reasoning items are left", b, a)
	}
	r.sent++
	x.Commit(&wire.Turn{
		ID: fmt.Sprintf("resp_%d", r.sent), Text: "Let me look.", Done: true,
		Usage: wire.Usage{Uncached: int64(x.Prompt.Body.Len() / 4), Output: 9, Reported: true},
	}, r.now.Add(time.Second))
	r.now = r.now.Add(10 * time.Second)
	return x
}

var automatic = pricing.Rules{
	Regime: pricing.Breakpoints, Markers: 4, KeepsThinking: true, Write: 1.25, Write1h: 1.25,
	Read: 0.05, TTL: 30 * time.Minute, MinTokens: 1024,
}

// Output in JSON in text is admitted like any other. Equal output in another envelope becomes a
// pointer.
func TestCodexAdmission(t *testing.T) {
	rules := automatic
	rules.MinTokens = 0
	r := newResponses(t, Options{}, rules)
	tests := strings.Repeat("=== RUN   TestSomething\n--- PASS: TestSomething (0.00s)\n", 20) + "ok  \tmodule\t0.1s\n"
	file := strings.Repeat("\tfmt.Println(\"one line of a file\", \"ü\")\n", 20)
	r.prompt("go")
	r.turn(1, "go test -v ./...", tests)
	r.turn(2, "cat a.go", file)
	r.turn(3, "cat a.go", file)
	x := r.send("")
	for i, want := range []string{
		`\"output\":\"=== RUN   TestSomething\\n[llm_cache: 39 lines of passing tests left out]\\nok  ` +
			`\\tmodule\\t0.1s\\n\"}"}]`,
		`{\"chunk_id\":\"001eef\",\"wall_time_seconds\":1.5,\"exit_code\":0,\"output\":`,
		`"output":"[llm_cache: same content as the result of exec cat a.go above (c2), 20 lines]"`,
	} {
		if !strings.Contains(string(x.Prompt.Body.Bytes()), want) {
			t.Errorf("%d: %s is not in\n%s", i, want, x.Prompt.Body.Bytes())
		}
	}
	if strings.Count(string(x.Prompt.Body.Bytes()), "one line of a file") != 20 {
		t.Error("the file stands in there not just once")
	}
}

// eagerly are options with every edit allowed.
func eagerly() Options {
	one, none := 1, 0
	return Options{Policy: Eager, Zones: Zones{Frozen: &none, Hot: &one, MinMessages: &none}, Prune: Prune{After: &one}}
}

// Announcements are removed, except after reasoning. Reasoning and pairs of call and output stay.
func TestCodexEager(t *testing.T) {
	r := newResponses(t, eagerly(), automatic)
	r.prompt("go")
	for n := range 8 {
		r.turn(n, fmt.Sprintf("cat f%d.go", n), strings.Repeat(fmt.Sprintf("\ta line of file %d\n", n), 80))
		r.send("")
	}
	x := r.send("")
	if !strings.Contains(string(x.Prompt.Body.Bytes()), content.StubFrame) ||
		!strings.Contains(string(x.Prompt.Body.Bytes()), "exec cat f1.go, 80 lines") {
		t.Errorf("no output was pruned: %s", x.Prompt.Body.Bytes())
	}
	if strings.Count(string(x.Prompt.Body.Bytes()), "Let me look.") != 8 {
		t.Error("what stands behind reasoning was removed")
	}
	for i := range r.items {
		if strings.Contains(r.items[i], `"reasoning"`) {
			r.items[i] = strings.Replace(r.items[i+1], "msg_", "msg_2", 1) // a sentence of its own
		}
	}
	r.now = r.now.Add(time.Hour)
	if x = r.send(""); strings.Count(string(x.Prompt.Body.Bytes()), "Let me look.") >= 16 {
		t.Error("no announcement was removed")
	}
}

// Where reasoning is bound to its past, an edit before it waits for the end of the run of calls.
func TestBindReasoning(t *testing.T) {
	bound := automatic
	bound.BindsReasoning = true
	r := newResponses(t, eagerly(), bound)
	r.prompt("go")
	for n := range 8 {
		r.turn(n, fmt.Sprintf("cat f%d.go", n), strings.Repeat(fmt.Sprintf("\ta line of file %d\n", n), 80))
		if x := r.send(""); strings.Contains(string(x.Prompt.Body.Bytes()), "pruned") {
			t.Fatalf("request %d: pruned in front of reasoning of the running task", n)
		}
	}
	r.final()
	r.prompt("and now?")
	if x := r.send(""); !strings.Contains(string(x.Prompt.Body.Bytes()), content.StubFrame) {
		t.Error("not pruned between two tasks")
	}
}

// Thinking sent as reasoning items is treated like these: it is always sent again, and bound
// reasoning keeps its past unchanged.
func TestThinkingThatBecomesReasoning(t *testing.T) {
	toResponses := func(wire.Format) wire.Format { return wire.OpenAIResponses }
	for _, c := range []struct {
		name   string
		mode   stage.Mode
		target func(wire.Format) wire.Format
		stays  bool
	}{
		{"native", stage.Auto, nil, false},
		{"translated", stage.Auto, toResponses, true},
		{"on", stage.On, toResponses, false},
	} {
		for _, policy := range []Policy{Eager, CostAware} {
			s := newScript(t, Options{
				Policy: policy, StripThinking: StripThinking{Mode: c.mode},
				Expand: Expand{Mode: stage.Off},
			}, automatic)
			s.p.Target = c.target
			s.prompt("Fix the bug.")
			for i := range 12 {
				s.send(s.answer)
				s.turn(i, fmt.Sprintf("/src/file%d.go", i), long("file"), long("thought"))
			}
			s.final("Done.")
			s.prompt("Now the tests.")
			s.now = s.now.Add(48 * time.Hour)
			x := s.send(wire.Turn{Done: true})
			if n := count(x, stage.Thinking); (n == 0) != c.stays || !x.Prompt.Edited {
				t.Errorf("%s, %s: %d thoughts removed: %v", c.name, policy, n, x.Prompt.Fired)
			}
		}
	}

	bound := automatic
	bound.BindsReasoning = true
	s := newScript(t, Options{Policy: Eager}, bound)
	s.p.Target = toResponses
	s.prompt("Fix the bug.")
	for i, x := range s.run(0, 12, true) {
		if n := count(x, stage.ToolResults) + count(x, stage.Prune) + count(x, stage.Narration); n > 0 {
			t.Fatalf("request %d: edited in front of reasoning of the running task: %v", i, x.Prompt.Fired)
		}
	}
}

// An own breakpoint is set on request, if the provider supports it, at a message of the client.
func TestExplicitBreakpoint(t *testing.T) {
	const mark = `,"prompt_cache_breakpoint":{"mode":"explicit"}}`
	for _, c := range []struct {
		mode           stage.Mode
		explicit, want bool
	}{{stage.On, true, true}, {stage.On, false, false}, {stage.Auto, true, false}} {
		rules, o := automatic, eagerly()
		rules.Explicit, o.Breakpoints.Mode = c.explicit, c.mode
		r := newResponses(t, o, rules)
		r.prompt(strings.Repeat("a long prompt ", 400))
		for n := range 6 {
			r.turn(n, fmt.Sprintf("cat f%d.go", n), strings.Repeat(fmt.Sprintf("\ta line of file %d\n", n), 80))
			r.send("")
		}
		if x := r.send(""); strings.Contains(string(x.Prompt.Body.Bytes()), mark) != c.want || c.want && x.Prompt.Markers != 1 {
			t.Errorf("%+v: %d markers in %s", c, x.Prompt.Markers, x.Prompt.Body.Bytes())
		}
	}
}

// Requests with a history retained by the provider stay unmodified and are counted.
func TestPartialIsUntouched(t *testing.T) {
	r := newResponses(t, eagerly(), automatic)
	output := strings.Repeat("\x1b[31mred\x1b[0m\n", 200)
	for n := range 3 {
		r.items = []string{fmt.Sprintf(`{"type":"function_call_output","call_id":"c%d","output":%s}`, n,
			content.Quote(output))}
		x := r.send(fmt.Sprintf(`,"previous_response_id":"resp_%d","tools":[{"type":"function","name":"a"}]`, n))
		if x.Prompt.Edited || x.Decision.Reason == "" || len(x.Prompt.Fired) > 0 {
			t.Errorf("request %d: %+v", n, x)
		}
	}
	r.items = []string{`{"role":"user","content":"another conversation"}`}
	r.send("")
	if rep := r.s.Report(r.now); len(rep.Conversations) != 2 || rep.Conversations[1].Requests != 3 ||
		rep.Conversations[1].Total.Output != 27 || rep.Conversations[1].Frozen {
		t.Errorf("%+v", rep)
	}
}

// A request for compaction, in a message or as an item, is not folded.
func TestCodexCompaction(t *testing.T) {
	for _, last := range []string{
		`{"type":"compaction_trigger"}`,
		`{"role":"user","content":"You are performing a CONTEXT CHECKPOINT COMPACTION."}`,
	} {
		r := newResponses(t, Options{}, automatic)
		r.prompt("go")
		for n := range 4 {
			r.turn(n, fmt.Sprintf("cat f%d.go", n), strings.Repeat("x\n", 80))
			r.send("")
		}
		r.final()
		r.items = append(r.items, last)
		r.now = r.now.Add(2 * time.Hour)
		if x := r.send(""); x.Decision.Reason != "side request" {
			t.Errorf("%s: %s", last, x.Decision.String())
		}
	}
}
