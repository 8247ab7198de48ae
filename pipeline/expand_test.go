// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

var anyStub = regexp.MustCompile(`\[\[llm_cache:folded ([0-9a-f]{8}(?:\.[0-9]+)?): `)

// answered answers a call of a transaction.
func answered(x *Transaction, arguments string, recall func(string) (string, bool)) intercept.Part {
	p := intercept.Part{Name: ExpandTool, Arguments: arguments}
	x.Answerer.Answer(&p, recall)
	return p
}

// Codex has its tools in its first item, most of them in namespaces. The expand tool comes after
// them, in the same bytes from the first request on. Folded text is restored in full; a part is
// counted in the unwrapped output.
func TestExpandInMessages(t *testing.T) {
	r := newResponses(t, eagerly(), automatic)
	r.items[0] = `{"type":"additional_tools","id":"at_1","role":"developer","tools":[{"type":"namespace",` +
		`"name":"functions","description":"` + strings.Repeat(" ", minInstructions) +
		`","tools":[{"type":"custom","name":"exec"},{"type":"function","name":"wait"}]},{"type":"namespace",` +
		`"name":"clock","tools":[{"type":"function","name":"sleep"}]}]}`
	const members = `,"store":false,"tool_choice":"auto"`
	r.prompt("go")
	var x *Transaction
	first := ""
	for n := range 8 {
		r.turn(n, fmt.Sprintf("cat f%d.go", n), strings.Repeat(fmt.Sprintf("\ta line of file %d\n", n), 80))
		x = r.send(members)
		item := gjson.GetBytes(x.Prompt.Body.Bytes(), "input.0").Raw
		if first == "" {
			first = item
		}
		if item != first || gjson.Get(item, "tools.#").Int() != 3 || gjson.Get(item, "tools.2.name").Str != ExpandTool ||
			gjson.GetBytes(x.Prompt.Body.Bytes(), "tools").Exists() {
			t.Fatalf("request %d begins with %s", n, item)
		}
	}
	stub := anyStub.FindSubmatch(x.Prompt.Body.Bytes())
	if stub == nil {
		t.Fatalf("nothing is folded in %s", x.Prompt.Body.Bytes())
	}
	name := string(stub[1])
	var whole []string
	for _, p := range gjson.Get(r.items[len(r.items)-4*8+3], "output.#.text").Array() {
		whole = append(whole, p.Str)
	}
	if got := answered(x, `{"ids":["`+name+`"]}`, nil); got.Result != strings.Join(whole, "\n") || got.Failed {
		t.Errorf("got %q, want %q", got.Result, whole)
	}
	if got := answered(x, `{"ids":["`+name+`"],"lines":"6-7"}`, nil); got.Result != strings.Repeat("\ta line of file 0\n",
		2) {
		t.Errorf("got %q", got.Result)
	}
}

// If the tool cannot be the last tool, it is not declared.
func TestExpandNotInMessages(t *testing.T) {
	for name, item := range map[string]string{
		"no tools": `{"type":"additional_tools","role":"developer","tools":[]}`,
		"behind answers": `{"type":"message","role":"user","content":"go"},{"type":"message","role":"assistant",` +
			`"content":"Done."},{"type":"additional_tools","role":"developer","tools":[{"type":"custom","name":"exec"}]}`,
		"another's": `{"type":"additional_tools","role":"developer","tools":[{"type":"function",` +
			`"name":"mcp__llm_cache__expand"}]}`,
	} {
		o := eagerly()
		o.Expand.Mode = stage.On
		r := newResponses(t, o, automatic)
		r.items[0] = item
		r.prompt("go")
		if x := r.send(`,"store":false`); strings.Count(string(x.Prompt.Body.Bytes()), ExpandTool) != strings.Count(item,
			ExpandTool) {
			t.Errorf("%s: %s", name, x.Prompt.Body.Bytes())
		}
	}
}

// The upstream's limit for tools includes the expand tool. Without room for it, the request is sent
// as with expand off.
func TestExpandWithinBounds(t *testing.T) {
	tools := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`{"type":"function","name":"f%d"}`, i)
		}
		return strings.Join(all, ",")
	}
	namespace := `{"type":"namespace","name":"n","tools":[` + tools(127) + `]}`
	for _, c := range []struct {
		name, tools string
		bounds      wire.ToolBounds
		target      wire.Format
		want        bool
	}{
		{"no bounds", tools(300), wire.ToolBounds{}, wire.OpenAIResponses, true},
		{"the last place", tools(127), wire.ToolBounds{Count: 128}, wire.OpenAIResponses, true},
		{"no place", tools(128), wire.ToolBounds{Count: 128}, wire.OpenAIResponses, false},
		{"beyond it anyway", tools(129), wire.ToolBounds{Count: 128}, wire.OpenAIResponses, false},
		{"a namespace is one", namespace + "," + tools(1), wire.ToolBounds{Count: 128}, wire.OpenAIResponses, true},
		{"a namespace of 127, translated", namespace, wire.ToolBounds{Count: 128}, wire.OpenAIChat, true},
		{
			"a namespace of 127 and one, translated", namespace + "," + tools(1),
			wire.ToolBounds{Count: 128},
			wire.OpenAIChat,
			false,
		},
		{"a name too long", tools(3), wire.ToolBounds{Name: len(ExpandTool) - 1}, wire.OpenAIResponses, false},
		{"a name that fits", tools(3), wire.ToolBounds{Name: len(ExpandTool)}, wire.OpenAIResponses, true},
		{"a description too long", tools(3), wire.ToolBounds{Description: 20}, wire.OpenAIResponses, false},
		{"too much", tools(3), wire.ToolBounds{Bytes: 700}, wire.OpenAIResponses, false},
	} {
		send := func(bounds wire.ToolBounds, mode stage.Mode) string {
			o := eagerly()
			o.Expand.Mode = mode
			r := newResponses(t, o, automatic)
			r.p.ToolBounds, r.p.Target = func(wire.Format) wire.ToolBounds { return bounds },
				func(wire.Format) wire.Format { return c.target }
			r.items[0] = `{"type":"additional_tools","role":"developer","tools":[` + c.tools + `]}`
			r.prompt("go")
			return string(r.send(`,"store":false`).Prompt.Body.Bytes())
		}
		got := send(c.bounds, stage.On)
		if strings.Contains(got, ExpandTool) != c.want {
			t.Errorf("%s: declared: %v, want %v", c.name, !c.want, c.want)
		}
		if off := send(c.bounds, stage.Off); !c.want && got != off {
			t.Errorf("%s: got %s\nwant as with expand off %s", c.name, got, off)
		}
	}
}

// A text that the client has dropped is kept whole, and its parts are found by their names.
func TestExpandOfDroppedInput(t *testing.T) {
	written := `{"file_path":"/a.go","content":"` + strings.Repeat("x", 200) + `","more":"` + strings.Repeat("y", 200) +
		`"}`
	recall := func(name string) (string, bool) { return written, name == "0123abcd" }
	r := newResponses(t, eagerly(), automatic)
	r.items[0] = strings.Replace(r.items[0], `"tools":[`, `"tools":[{"type":"function","name":"mcp__cachelane__expand"},`,
		1)
	r.prompt("go")
	x := r.send("")
	x.Prompt.Edited = true // the client offers the tool, so it is not declared
	for name, want := range map[string]string{
		"0123abcd": written, "0123abcd.1": strings.Repeat("x", 200), "0123abcd.2": strings.Repeat("y", 200),
		"0123abcd.3": "", "0123abcd.": "", "89abcdef": "", "89abcdef.1": "",
	} {
		p := intercept.Part{Name: "mcp__cachelane__expand", Arguments: `{"ids":["` + name + `"]}`}
		x.Answerer.Answer(&p, recall)
		if want == "" {
			if !p.Failed || !strings.HasPrefix(p.Result, "Unknown block") {
				t.Errorf("%s: got %q", name, p.Result)
			}
		} else if p.Result != want || p.Failed {
			t.Errorf("%s: got %q", name, p.Result)
		}
	}
}

// A call is forwarded before it is complete only if its tool reads or searches.
func TestWrites(t *testing.T) {
	x := new(Transaction)
	for _, name := range []string{
		"Write", "Edit", "MultiEdit", "Bash", "exec", "apply_patch", "local_shell", "str_replace_based_edit_tool",
		"search_replace", "find_and_replace",
		"truncate", "duplicate", "createThread", "notify", "review", "open", "", "_read", "mcp__files__read",
	} {
		if !x.Answerer.Writes(name) {
			t.Errorf("%q is not held", name)
		}
	}
	for _, name := range []string{
		"Read", "read_file", "ReadManyFiles", "Grep", "glob", "list_directory", "view",
		"search",
	} {
		if x.Answerer.Writes(name) {
			t.Errorf("%q is held", name)
		}
	}
}

// If the edits of a request contradict each other, the committed ones are sent: at least the
// declaration of the tool.
func TestImpossibleEdits(t *testing.T) {
	s := newScript(t, Options{Expand: Expand{Mode: stage.On}}, pricing.Lookup("anthropic", "claude-opus-4-6", time.Now()))
	s.prompt("Go.")
	s.turn(1, "/a", "text")
	if x := s.send(wire.Turn{Done: true}); !bytes.Contains(x.Prompt.Body.Bytes(), []byte(ExpandTool)) {
		t.Fatal("the tool was not declared")
	}
	s.s.Lock()
	l := s.s.Conversation(0)
	for i := range l.States {
		l.States[i].Edit = &sessioncache.Edit{Stage: stage.Prune, Op: wire.OpRemove} // calls and results, too
	}
	l.SetEdited(nil)
	s.s.Unlock()
	s.final("Done.")
	s.prompt("And now?")
	v, err := wire.Parse(s.format, []byte(s.body()), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := s.p.Begin(v, s.s, s.now)
	if x.Prompt.Err == nil || !x.Prompt.Edited || !bytes.Contains(x.Prompt.Body.Bytes(), []byte(ExpandTool)) ||
		!json.Valid(x.Prompt.Body.Bytes()) || !x.Answerer.Intercepts() {
		t.Errorf("error %v, edited %t: %s", x.Prompt.Err, x.Prompt.Edited, x.Prompt.Body.Bytes())
	}
}

// The tool precedes the messages: a conversation changes its decision only with a cold cache, under
// any configuration, and then keeps it.
func TestExpandStaysAsItWas(t *testing.T) {
	on := Options{Policy: Eager, Expand: Expand{Mode: stage.On}}
	s := newScript(t, on, keeping)
	s.prompt("go")
	declared := func() bool {
		x := s.send(wire.Turn{Done: true, Text: "unrelated words"})
		s.turn(len(s.messages), "/src/a.go", "text")
		return bytes.Contains(x.Prompt.Body.Bytes(), []byte(`"`+ExpandTool+`"`))
	}
	if !declared() {
		t.Fatal("the tool is not declared")
	}
	off, nothing := on, on
	off.Expand.Mode, nothing.Prune.Mode = stage.Off, stage.Off
	for _, o := range []Options{off, nothing} {
		s.p = New(o, s.p.rules)
		if !declared() {
			t.Error("the tool is gone in the middle of a conversation")
		}
	}
	s.now = s.now.Add(time.Hour)
	if declared() {
		t.Error("the tool is declared although nothing is folded")
	}
	s.p = New(on, s.p.rules)
	if declared() {
		t.Error("the tool is back in the middle of a conversation")
	}
}

// summary is Codex's request for a summary.
const summary = `{"type":"message","role":"user","content":[{"type":"input_text","text":"You are performing a ` +
	`CONTEXT CHECKPOINT COMPACTION. Create a handoff summary."}]}`

const (
	shell      = `{"type":"function","name":"shell"}`
	otherTools = `[` + shell + `,{"type":"function","name":"view_image"}]`
)

// responses is a request of the Responses API after so many turns.
func responses(t *testing.T, turns int, more, tools, instructions, model string) *wire.View {
	t.Helper()
	items := []string{`{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix the build."}]}`}
	for i := range turns {
		items = append(items,
			fmt.Sprintf(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Step %d."}]}`, i),
			fmt.Sprintf(`{"type":"message","role":"user","content":[{"type":"input_text","text":"Go on, %d."}]}`, i))
	}
	if more != "" {
		items = append(items, more)
	}
	v, err := wire.Parse(wire.OpenAIResponses, []byte(`{"model":"`+model+`","instructions":"`+instructions+`","input":[`+
		strings.Join(items, ",")+
		`],"tools":`+tools+`,"tool_choice":"auto","store":false}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Only a request for a summary without tools gets the tools of its conversation.
func TestSummaryKeepsTools(t *testing.T) {
	const clientTools = `[` + shell + `]`
	for name, c := range map[string]struct {
		tools, more, instructions, model string
		after                            time.Duration
		policy                           Policy
		upstream                         wire.Format
		want                             string
	}{
		"a summary":              {tools: `[]`, want: clientTools},
		"one that has its tools": {tools: otherTools, want: otherTools},
		"a title": {
			tools: `[]`, more: strings.Replace(summary, "CONTEXT CHECKPOINT COMPACTION", "short title", 1),
			want: `[]`,
		},
		"other instructions":            {tools: `[]`, instructions: "Summarise.", want: `[]`},
		"another model":                 {tools: `[]`, model: "gpt-5-mini", want: `[]`},
		"when the cache is cold":        {tools: `[]`, after: time.Hour, want: `[]`},
		"where edits are only computed": {tools: `[]`, policy: Observe, want: `[]`},
		"where a choice of tools changes how messages are read": {
			tools: `[]`, upstream: wire.Anthropic, want: `[]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := sessioncache.New(sessioncache.Options{MaxBytes: 1 << 24})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if c.policy == "" {
				c.policy = CostAware
			}
			p := New(Options{Policy: c.policy}, func(string, time.Time) pricing.Rules {
				return pricing.Rules{Regime: pricing.Automatic, Write: 1, Read: 0.1, TTL: 5 * time.Minute, MinTokens: 1024}
			})
			p.Target = func(f wire.Format) wire.Format {
				if c.upstream != "" {
					return c.upstream
				}
				return f
			}
			s, at := m.Acquire(t.Context(), sessioncache.Key{ID: "a"}), time.Unix(0, 0)
			for turns := range 3 {
				x := p.Begin(responses(t, turns, "", clientTools, "Be brief.", "gpt-5"), s, at)
				x.Commit(&wire.Turn{Done: true, Usage: wire.Usage{Uncached: 100, Read: 4000, Reported: true}}, at)
				x.Close()
			}
			if c.more == "" {
				c.more = summary
			}
			if c.instructions == "" {
				c.instructions = "Be brief."
			}
			if c.model == "" {
				c.model = "gpt-5"
			}
			x := p.Begin(responses(t, 3, c.more, c.tools, c.instructions, c.model), s, at.Add(c.after))
			defer x.Abandon()
			got, choice := gjson.GetBytes(x.Prompt.Body.Bytes(), "tools").Raw, gjson.GetBytes(x.Prompt.Body.Bytes(), "tool_choice").Str
			if given := c.want == clientTools; got != c.want || (choice == "none") != given || x.Prompt.Edited != given {
				t.Errorf("tools %s, choice %s, edited %t; want tools %s", got, choice, x.Prompt.Edited, c.want)
			}
			if c.want == clientTools && x.Prompt.SentTokens <= x.Prompt.OriginalTokens {
				t.Errorf("%d tokens are sent of %d, tools included", x.Prompt.SentTokens, x.Prompt.OriginalTokens)
			}
			if x.Rejected(); string(x.Prompt.Body.Bytes()) != string(x.req.View.Raw) {
				t.Errorf("after a rejection: %s", x.Prompt.Body.Bytes())
			}
		})
	}
}

const repeats = "[llm_cache: 58 lines of passing tests left out]"

// TestMarks: the marks of a prompt are the texts added by stages: before the first fold, without
// the expand tool and under every policy. The client's own text is no mark.
func TestMarks(t *testing.T) {
	same := `"` + strings.Repeat(`=== RUN   TestA\n`, 60) + `done"`
	quiet := func(o Options) Options {
		o.Expand.Mode = stage.Off
		return o
	}
	for _, c := range []struct {
		name    string
		options Options
		make    func(s *script)
		stands  string // in the prompt
		misled  string // in no call: stands, unless given
	}{
		{
			"a note", quiet(admitting(CostAware)), func(s *script) { s.result(0, "Bash", `{"command":"check"}`, same) },
			repeats, repeats,
		},
		{
			"a note, eager", quiet(admitting(Eager)), func(s *script) { s.result(0, "Bash", `{"command":"check"}`, same) },
			repeats, repeats,
		},
		{"a note that the model has quoted", quiet(admitting(CostAware)), func(s *script) {
			s.result(0, "Bash", `{"command":"check"}`, same)
			s.final("It says " + repeats)
			s.prompt("Go on.")
		}, repeats, repeats},
		{"a note that the client has in a file", quiet(admitting(CostAware)), func(s *script) {
			s.result(0, "Bash", `{"command":"check"}`, same)
			s.result(1, "Read", readInput, string(content.Quote("about\n"+repeats+"\n")))
		}, repeats, ""},
		{"a note that the client has typed", quiet(admitting(CostAware)), func(s *script) {
			s.result(0, "Bash", `{"command":"check"}`, same)
			s.prompt("What is " + repeats + "?")
		}, repeats, ""},
		{"a note of the client's in a result that is shortened", quiet(admitting(CostAware)), func(s *script) {
			s.result(0, "Bash", `{"command":"check"}`,
				string(content.Quote(repeats+"\n"+strings.Repeat("=== RUN   TestA\n", 80))))
		}, repeats, ""},
		{
			"a note with quotes", quiet(admitting(CostAware)), func(s *script) {
				s.result(0, "Bash", `{"command":"grep \"a\\.b\" c"}`,
					string(content.Quote(strings.Repeat("12345678901234567890\n", 2)+numbered(60))))
				s.result(1, "Bash", `{"command":"true"}`,
					string(content.Quote(strings.Repeat("12345678901234567890\n", 2)+numbered(60))))
			}, `same content as the result of Bash grep \"a\\.b\" c above`,
			`[llm_cache: same content as the result of Bash grep "a\.b" c above (t0), 62 lines]`,
		},
		{
			"a compacted result", quiet(Options{Policy: Eager, Prune: Prune{Mode: stage.Off}}),
			func(s *script) { s.run(0, 12, false) }, "[Compacted: ", "[Compacted: ",
		},
		{
			"a stub, eager", quiet(Options{Policy: Eager, CompactToolResults: CompactToolResults{Mode: stage.Off}}),
			func(s *script) { s.run(0, 12, false) }, "[[llm_cache:folded ", "[[llm_cache:folded ",
		},
		{"what is cleared on the client's order", Options{}, func(s *script) {
			s.marker, s.head = "", ordering(clears)
			s.p.Manages = noFormat
			s.run(0, 20, false)
		}, content.ClearedPlaceholder, content.ClearedPlaceholder},
		{
			"observed only", quiet(admitting(Observe)), func(s *script) { s.result(0, "Bash", `{"command":"check"}`, same) }, "",
			"",
		},
		{
			"nothing edited", quiet(admitting(CostAware)),
			func(s *script) { s.result(0, "Bash", `{"command":"check"}`, `"done"`) }, "", "",
		},
	} {
		s := newScript(t, c.options, unbound)
		s.prompt("Fix the bug.")
		s.send(wire.Turn{Text: "I check.", Done: true})
		c.make(s)
		x := s.send(s.answer)
		body := string(x.Prompt.Body.Bytes())
		if !strings.Contains(body, c.stands) {
			t.Fatalf("%s: %q does not stand in %s", c.name, c.stands, body)
		}
		if c.stands == "" && x.Answerer.Intercepts() {
			t.Errorf("%s: answers are intercepted", c.name)
		}
		mark := c.misled
		if mark == c.stands && mark != "" && !strings.HasSuffix(mark, "]") { // the whole mark
			mark = regexp.MustCompile(regexp.QuoteMeta(mark) + `[^\]]*\]+`).FindString(intercept.Plain(body))
		}
		if mark == "" {
			mark = repeats
		}
		arguments := fmt.Sprintf(`{"command":%s}`, content.Quote("cat > a <<'X'\n"+mark+"\nX"))
		if got, want := x.Answerer.Intercepts() && x.Answerer.Misled(arguments), c.misled != ""; got != want {
			t.Errorf("%s: misled by %q: got %t, want %t (intercepts %t)", c.name, mark, got, want, x.Answerer.Intercepts())
		}
	}
}

// numbered returns lines that no rule shortens.
func numbered(lines int) string {
	var s strings.Builder
	for i := range lines {
		fmt.Fprintf(&s, "value %d of the table is %d\n", i, i*i)
	}
	return s.String()
}

// TestRefusedWithoutTheTool: a model without the tool receives the text of a stub that it has
// copied.
func TestRefusedWithoutTheTool(t *testing.T) {
	s := newScript(t, Options{
		Policy: Eager, Expand: Expand{Mode: stage.Off},
		CompactToolResults: CompactToolResults{Mode: stage.Off},
	}, unbound)
	s.prompt("Fix the bug.")
	s.run(0, 12, false)
	x := s.send(s.answer)
	mark := regexp.MustCompile(`\[\[llm_cache:folded [0-9a-f]{8}`).FindString(string(x.Prompt.Body.Bytes()))
	p := intercept.Part{Name: "Write", Arguments: `{"content":"` + mark + `: Read"}`}
	x.Answerer.Answer(&p, nil)
	if name := strings.TrimPrefix(mark, "[[llm_cache:folded "); !p.Failed ||
		!strings.HasSuffix(p.Result, "\n"+x.req.original(name)) || strings.Contains(p.Result, ExpandTool) {
		t.Errorf("got %q", p.Result)
	}
}

// TestCopiedIsRemembered: after a response that ended because a call contained a mark, the next
// response buffers its calls. The response after that does not.
func TestCopiedIsRemembered(t *testing.T) {
	s := newScript(t, admitting(CostAware), unbound)
	s.prompt("Fix the bug.")
	s.result(0, "Bash", `{"command":"check"}`, `"`+strings.Repeat(`status=ok\n`, 60)+`done"`)
	begin := func() *Transaction {
		v, err := wire.Parse(s.format, []byte(s.body()), nil)
		if err != nil {
			t.Fatal(err)
		}
		return s.p.Begin(v, s.s, s.now)
	}
	x := begin()
	if x.Answerer.Whole() {
		t.Error("calls are kept back at first")
	}
	sent := string(x.Prompt.Body.Bytes())
	x.Answerer.Copied()
	x.Abandon()
	for range 2 { // the second is cut off, too
		x = begin()
		if !x.Answerer.Whole() || string(x.Prompt.Body.Bytes()) != sent {
			t.Errorf("kept back %t, sent\n%s\nwant\n%s", x.Answerer.Whole(), x.Prompt.Body.Bytes(), sent)
		}
		x.Abandon()
	}
	x = begin()
	x.Commit(&s.answer, s.now)
	s.result(1, "Bash", `{"command":"true"}`, `"ok"`)
	if x = begin(); x.Answerer.Whole() {
		t.Error("calls are kept back behind a good answer")
	}
	x.Abandon()
}
