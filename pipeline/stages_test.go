// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

func ordering(edits string) string { return `"context_management":{"edits":[` + edits + `]},` }

const (
	keepAll = `{"type":"clear_thinking_20251015","keep":"all"}`
	clears  = `{"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses","value":10},"keep":{"type":"tool_uses",` +
		`"value":4}}`
)

var localServer = pricing.Rules{Regime: pricing.KV}

func noFormat(wire.Format) bool { return false }

// TestClearingGrows: a conversation is cleared in steps. Cleared blocks stay cleared, and between
// two steps the prompt only grows.
func TestClearingGrows(t *testing.T) {
	for name, rules := range map[string]pricing.Rules{"box": localServer, "keeping": keeping} {
		s := newScript(t, Options{}, rules)
		s.marker, s.head = "", ordering(clears)
		s.p.Manages = noFormat
		s.prompt("Fix the bug.")
		cuts, last := 0, (*Transaction)(nil)
		for i, x := range s.run(0, 41, false) {
			cleared := bytes.Count(x.Prompt.Body.Bytes(), []byte(content.ClearedPlaceholder))
			if x.Prompt.Applied == nil || x.Prompt.Applied.ToolUses != int64(cleared) || count(x, stage.Clearing) != cleared {
				t.Fatalf("%s, request %d: told %+v of %d, %v", name, i, x.Prompt.Applied, cleared, x.Prompt.Fired)
			}
			if n := i - cleared; n > 10 || cleared > 0 && n < 4 {
				t.Errorf("%s, request %d: %d results are left", name, i, n)
			}
			for _, f := range x.Prompt.Fired {
				if f.Stage != stage.Clearing && f.Stage != stage.Breakpoints {
					t.Errorf("%s, request %d: %v", name, i, x.Prompt.Fired)
				}
			}
			if last != nil {
				shared, of := prefix(t, last.Prompt.Body.Bytes(), x.Prompt.Body.Bytes())
				if cleared > int(last.Prompt.Applied.ToolUses) {
					cuts++
					if shared < 2*int(last.Prompt.Applied.ToolUses) || x.Decision.Folded == 0 {
						t.Errorf("%s, request %d: %d of %d blocks stay, %+v", name, i, shared, of, x.Decision)
					}
				} else if shared != of {
					t.Errorf("%s, request %d: %d of %d blocks stay though nothing was cleared", name, i, shared, of)
				}
			}
			last = x
		}
		if cuts != 5 { // with 11 results, and then with every seventh
			t.Errorf("%s: cleared %d times", name, cuts)
		}
		// A client that stops giving orders gets the same bytes.
		s.head = ""
		x := s.send(wire.Turn{Done: true})
		if shared, of := prefix(t, last.Prompt.Body.Bytes(), x.Prompt.Body.Bytes()); shared != of || x.Prompt.Applied != nil {
			t.Errorf("%s: without the order %d of %d blocks stay, told %+v", name, shared, of, x.Prompt.Applied)
		}
	}
}

// TestClearingOutlivesTheProcess: the same bytes after a restart.
func TestClearingOutlivesTheProcess(t *testing.T) {
	shelf := new(storetest.Shelf)
	one, other := newProcess(t, localServer, nil), newProcess(t, localServer, shelf)
	one.p.Manages, other.p.Manages = noFormat, noFormat
	s := newScript(t, Options{}, localServer)
	s.marker, s.head = "", ordering(clears)
	s.prompt("Fix the bug.")
	at, most := time.Unix(1e9, 0), 0
	for i := range 30 {
		s.turn(i, fmt.Sprintf("/src/file%d.go", i), long(fmt.Sprint("f", i)))
		if i%4 == 3 {
			other.restart()
		}
		answer := wire.Turn{Text: "unrelated words", Done: true}
		want, got := one.send([]byte(s.body()), answer, at, nil), other.send([]byte(s.body()), answer, at, nil)
		if !bytes.Equal(want, got) {
			t.Fatalf("request %d: %s", i, difference(got, want))
		}
		most = max(most, bytes.Count(got, []byte(content.ClearedPlaceholder)))
		at = at.Add(time.Minute)
	}
	if most < 20 {
		t.Errorf("no more than %d were cleared", most)
	}
}

// TestOrdersAreLeftToTheProvider: if the upstream clears or summarizes, the request is sent
// unmodified except for markers. An order about thinking alone changes nothing.
func TestOrdersAreLeftToTheProvider(t *testing.T) {
	folds := func(head string, o Options) (folded, tools int, body string) {
		s := newScript(t, o, keeping)
		s.head = head
		s.prompt("Fix the bug.")
		s.run(0, 20, false)
		s.final("done")
		s.prompt("And now?")
		s.now = s.now.Add(time.Hour) // the cache is cold, so folds are free
		x := s.send(wire.Turn{Done: true})
		if x.Prompt.Applied != nil {
			t.Errorf("%q: told %+v", head, x.Prompt.Applied)
		}
		for _, f := range x.Prompt.Fired {
			switch f.Stage {
			case stage.Breakpoints:
			case stage.Expand:
				tools++
			default:
				folded += f.Count
			}
		}
		return folded, tools, strings.ReplaceAll(string(x.Prompt.Body.Bytes()), s.marker, "")
	}
	plain, _, body := folds("", Options{})
	for head, leaves := range map[string]bool{
		ordering(keepAll): false,
		ordering(`{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":1}}`): false,
		ordering(clears):                        true,
		ordering(`{"type":"compact_20260112"}`): true,
		`"compaction":{"type":"summarize"},`:    true,
		`"compaction":null,`:                    false,
	} {
		for name, o := range map[string]Options{
			"auto": {}, "eager": {Policy: Eager},
			"expand": {Expand: Expand{Mode: stage.On}},
		} {
			got, tools, sent := folds(head, o)
			if leaves && (got != 0 || tools != 0) || !leaves && got == 0 {
				t.Errorf("%s, %s: %d blocks edited, %d tools", head, name, got, tools)
			}
			if name == "auto" && !leaves && (got != plain || strings.Replace(sent, head, "", 1) != body) {
				t.Errorf("%s: %d blocks edited, not %d", head, got, plain)
			}
		}
	}
}

// A block folded before the first order keeps its sent form.
func TestOrdersComeLate(t *testing.T) {
	s := newScript(t, Options{Policy: Eager}, keeping)
	s.prompt("Fix the bug.")
	s.run(0, 20, false)
	before := s.send(wire.Turn{Done: true})
	s.head = ordering(clears)
	s.turn(20, "/src/file20.go", long("f20"))
	x := s.send(wire.Turn{Done: true})
	if shared, of := prefix(t, before.Prompt.Body.Bytes(), x.Prompt.Body.Bytes()); shared != of || !x.Prompt.Edited {
		t.Errorf("%d of %d blocks stay", shared, of)
	}
}

// After the upstream refuses a cleared history, it gets the client's own, and the client gets no
// report of cleared blocks.
func TestClearingRefused(t *testing.T) {
	s := newScript(t, Options{}, localServer)
	s.marker, s.head = "", ordering(clears)
	s.p.Manages = noFormat
	s.prompt("Fix the bug.")
	s.run(0, 12, false)
	v := parsed(t, s)
	x := s.p.Begin(v, s.s, s.now)
	if x.Prompt.Applied == nil || x.Prompt.Applied.ToolUses == 0 {
		t.Fatalf("told %+v", x.Prompt.Applied)
	}
	x.Rejected()
	if string(x.Prompt.Body.Bytes()) != s.body() || x.Prompt.Applied != nil {
		t.Errorf("told %+v, edited %t", x.Prompt.Applied, x.Prompt.Edited)
	}
	x.Accepted(0)
	x.Commit(&wire.Turn{Done: true}, s.now)
	s.turn(12, "/src/file12.go", long("f12"))
	if x = s.send(wire.Turn{Done: true}); x.Prompt.Edited {
		t.Error("it is cleared again")
	}
}

// Under observe, no block is cleared or reported.
func TestClearingObserved(t *testing.T) {
	s := newScript(t, Options{Policy: Observe}, localServer)
	s.marker, s.head = "", ordering(clears)
	s.p.Manages = noFormat
	s.prompt("Fix the bug.")
	s.run(0, 12, false)
	if x := s.send(wire.Turn{Done: true}); x.Prompt.Edited || x.Prompt.Applied != nil || count(x, stage.Clearing) == 0 {
		t.Errorf("edited %t, told %+v, %v", x.Prompt.Edited, x.Prompt.Applied, x.Prompt.Fired)
	}
}

// Thinking checked by its model never stays after a cleared result.
func TestClearingBoundThinking(t *testing.T) {
	s := newScript(t, Options{}, binding)
	s.head = ordering(clears)
	s.p.Manages = noFormat
	s.prompt("Fix the bug.")
	for i, x := range s.run(0, 20, true) {
		if x.Prompt.Applied.ToolUses > 0 {
			t.Fatalf("request %d: %d cleared in a run of calls", i, x.Prompt.Applied.ToolUses)
		}
	}
	s.final("done")
	s.prompt("And now?")
	x := s.send(wire.Turn{Done: true})
	if x.Prompt.Applied.ToolUses < 10 ||
		bytes.Contains(x.Prompt.Body.Bytes()[bytes.Index(x.Prompt.Body.Bytes(), []byte(content.ClearedPlaceholder)):], []byte(`"thought 1`)) {
		t.Errorf("told %+v: %s", x.Prompt.Applied, x.Prompt.Body.Bytes())
	}
}

// call is one round: a tool, and the length of its result.
type call struct {
	tool string
	size int
}

// readCalls returns n rounds of Read with results of 4,000 bytes, estimated here as a thousand
// tokens.
func readCalls(n int) []call { return slices.Repeat([]call{{"Read", 4000}}, n) }

func perFour(_ wire.Kind, bytes int) float64 { return float64(bytes) / 4 }

// conversation is a request with orders: human prompts, each followed by thinking and rounds.
func conversation(t *testing.T, edits string, tasks ...[]call) *content.History {
	t.Helper()
	var m []string
	n := 0
	for _, calls := range tasks {
		m = append(m, `{"role":"user","content":"Go on."}`)
		for i, c := range calls {
			thought := ""
			if i == 0 {
				thought = `{"type":"thinking","thinking":"hm","signature":"s"},`
			}
			m = append(m,
				fmt.Sprintf(`{"role":"assistant","content":[%s{"type":"tool_use","id":"t%d","name":%q,`+
					`"input":{"file_path":"/a/%d","more":"0123456789"}}]}`, thought, n, c.tool, n),
				fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":%q}]}`, n,
					strings.Repeat("x", c.size)))
			n++
		}
	}
	body := `{"model":"m","context_management":{"edits":[` + edits + `]},"messages":[` + strings.Join(m, ",") + `]}`
	v, err := wire.Parse(wire.Anthropic, []byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &request{History: content.History{
		View: v, Blocks: v.MessageBlocks(),
		States: sessioncache.NewBlockStates(len(v.MessageBlocks())),
	}}
	r.learn()
	return &r.History
}

// order carries out the orders of a request.
func order(h *content.History) {
	m := h.View.Management()
	editCleared(h, &m, perFour, func(i int, op wire.Op, value []byte) {
		h.States[i].Edit = &sessioncache.Edit{Stage: stage.Clearing, Op: op, Value: value}
	})
}

// gone lists the cleared results by their number.
func gone(t *testing.T, h *content.History) (out []int) {
	t.Helper()
	n := 0
	for i := range h.Blocks {
		if h.Blocks[i].Kind != wire.KindToolResult {
			continue
		}
		if e := h.States[i].Edit; e != nil {
			if string(e.Value) != `"[Old tool result content cleared]"` || e.Op != wire.OpReplace {
				t.Errorf("result %d: %s", n, e.Value)
			}
			out = append(out, n)
		}
		n++
	}
	return out
}

func TestResults(t *testing.T) {
	tokens := func(n int) string {
		return fmt.Sprintf(`,"trigger":{"type":"input_tokens","value":%d}`, n)
	}
	mixed := []call{{"Read", 4000}, {"Memory", 4000}, {"Bash", 4000}, {"Memory", 4000}, {"Read", 4000}, {"Read", 4000}}
	for _, c := range []struct {
		name  string
		more  string
		calls []call
		want  []int
	}{
		{name: "the API's own trigger, not reached", calls: readCalls(90)},
		{name: "the API's own trigger and keep", calls: readCalls(100), want: upTo(97)},
		{name: "tokens, not reached", more: tokens(9000), calls: readCalls(8)},
		{name: "tokens", more: tokens(8000), calls: readCalls(8), want: upTo(5)},
		{name: "calls, not reached", more: `,"trigger":{"type":"tool_uses","value":8}`, calls: readCalls(8)},
		{name: "calls", more: `,"trigger":{"type":"tool_uses","value":7}`, calls: readCalls(8), want: upTo(5)},
		{name: "keep", more: tokens(1000) + `,"keep":{"type":"tool_uses","value":6}`, calls: readCalls(8), want: upTo(2)},
		{name: "keep more than there is", more: tokens(1000) + `,"keep":{"type":"tool_uses","value":9}`, calls: readCalls(8)},
		{
			name: "what the model has not read stays", more: tokens(1000) + `,"keep":{"type":"tool_uses","value":0}`,
			calls: readCalls(8), want: upTo(7),
		},
		{
			name: "enough", more: tokens(1000) + `,"clear_at_least":{"type":"input_tokens","value":4900}`, calls: readCalls(8),
			want: upTo(5),
		},
		{
			name: "not enough", more: tokens(1000) + `,"clear_at_least":{"type":"input_tokens","value":5000}`,
			calls: readCalls(8),
		},
		{
			name: "excluded", more: tokens(1000) + `,"keep":{"type":"tool_uses","value":1},"exclude_tools":["Memory"]`,
			calls: mixed, want: []int{0, 2, 4},
		},
		{
			name: "shorter than the placeholder", more: tokens(100) + `,"keep":{"type":"tool_uses","value":1}`,
			calls: []call{{"Read", 20}, {"Read", 4000}, {"Read", 20}, {"Read", 20}}, want: []int{1},
		},
	} {
		h := conversation(t, `{"type":"clear_tool_uses_20250919"`+c.more+`}`, c.calls)
		order(h)
		if got := gone(t, h); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v cleared, not %v", c.name, got, c.want)
		}
		s := sumCleared(h, perFour)
		if s.ToolUses != int64(len(c.want)) || s.Thinking != 0 || (s.Tokens > 0) != (len(c.want) > 0) ||
			s.Tokens > int64(1000*len(c.want)) || s.Tokens < int64(990*len(c.want)) {
			t.Errorf("%s: told %+v", c.name, s)
		}
	}
}

// Another order, or none, clears nothing.
func TestNoOrder(t *testing.T) {
	for _, edits := range []string{
		``, `{"type":"clear_thinking_20251015","keep":"all"}`,
		`{"type":"clear_thinking_20251015"}`, `{"type":"clear_tool_uses_20990101"}`, `7`,
	} {
		h := conversation(t, edits, readCalls(200))
		order(h)
		for i := range h.States {
			if h.States[i].Edit != nil {
				t.Fatalf("%s: block %d is cleared", edits, i)
			}
		}
	}
}

func TestInputs(t *testing.T) {
	for inputs, want := range map[string]string{`false`: "", `true`: "Read Bash ", `["Bash"]`: "Bash "} {
		h := conversation(t,
			`{"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":100},"keep":{"type":"tool_uses",`+
				`"value":1},"exclude_tools":["Memory"],"clear_tool_inputs":`+inputs+`}`,
			[]call{{"Read", 4000}, {"Bash", 4000}, {"Memory", 4000}, {"Read", 4000}})
		order(h)
		got := ""
		for i := range h.Blocks {
			if b := &h.Blocks[i]; b.Kind == wire.KindToolUse && h.States[i].Edit != nil {
				if got += h.View.Text(b.Name) + " "; string(h.States[i].Edit.Value) != "{}" {
					t.Errorf("an input becomes %s", h.States[i].Edit.Value)
				}
			}
		}
		if got != want || sumCleared(h, perFour).ToolUses != 2 {
			t.Errorf("%s: inputs of %q are cleared, not of %q", inputs, got, want)
		}
	}
}

func TestThinking(t *testing.T) {
	for keep, want := range map[int]int64{1: 2, 2: 1, 3: 0, 9: 0} {
		h := conversation(t, fmt.Sprintf(`{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":%d}}`,
			keep), readCalls(2), readCalls(1), readCalls(2))
		order(h)
		last := int64(0) // tasks without their thinking
		for i := range h.Blocks {
			if e := h.States[i].Edit; e != nil {
				if !h.Blocks[i].IsThinking() || e.Op != wire.OpRemove {
					t.Errorf("keep %d: %s is cleared", keep, h.Blocks[i].Kind)
				}
				last = int64(h.States[i].Task)
			}
		}
		if s := sumCleared(h, perFour); s.Thinking != want || last != want || s.ToolUses != 0 ||
			s.Tokens != s.ThinkingTokens {
			t.Errorf("keep %d: %+v, up to that of task %d", keep, s, last)
		}
	}
}

func upTo(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// wordy makes a pipeline compress texts, with the results in the map.
func (s *script) wordy(known map[wire.Hash]Shortened, kinds ...Prose) {
	s.p.Compress = &Compress{MinBytes: 200, Kinds: kinds, Find: func(_ *sessioncache.Session, block wire.Hash) (Shortened,
		bool,
	) {
		r, ok := known[block]
		return r, ok
	}}
}

// unread sends a request and returns the texts without a known result.
func (s *script) unread() (x *Transaction, texts map[wire.Hash]string) {
	s.t.Helper()
	x = s.send(wire.Turn{Text: "unrelated", Done: true, Usage: wire.Usage{Read: 1000, Uncached: 10, Reported: true}})
	texts = map[wire.Hash]string{}
	x.Unread(func(block wire.Hash, text string) bool {
		texts[block] = text
		return true
	})
	return x, texts
}

// calling adds a response with a text and a call, and its result, which may be an error.
func (s *script) calling(n int, name, input, said, result string, failed bool) {
	more := ""
	if failed {
		more = `,"is_error":true`
	}
	s.add(fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":%s},{"type":"tool_use","id":"t%d",`+
		`"name":%q,"input":%s}]}`, content.Quote(said), n, name, input))
	s.add(fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":%s%s}]}`, n,
		content.Quote(result), more))
}

// TestCompress lists the blocks that are compressed, and the moments.
func TestCompress(t *testing.T) {
	text := func(what string) string { return strings.Repeat("many words about "+what+" and the rest\n", 20) }
	kinds := map[string][]Prose{
		"results": {ProseResults}, "files": {ProseFiles}, "output": {ProseOutput}, "answers": {ProseAnswers},
		"all": {ProseResults, ProseFiles, ProseOutput, ProseAnswers},
	}
	for name, c := range map[string]struct {
		kinds   string
		options Options
		warm    bool // the upstream's cache is alive
		unknown bool // no result is known
		stays   bool // the known result is to keep the texts
		want    string
	}{
		"results":       {kinds: "results", want: "fetch"},
		"files":         {kinds: "files", want: "read"},
		"output":        {kinds: "output", want: "grep make"},
		"answers":       {kinds: "answers", options: Options{Expand: Expand{Mode: stage.On}}, want: "said"},
		"all":           {kinds: "all", options: Options{Expand: Expand{Mode: stage.On}}, want: "fetch grep make read said"},
		"no expanding":  {kinds: "answers", options: Options{Expand: Expand{Mode: stage.Off}}},
		"warm":          {kinds: "all", warm: true},
		"warm, eager":   {kinds: "all", warm: true, options: Options{Policy: Eager}},
		"nothing known": {kinds: "all", unknown: true},
		"texts stay":    {kinds: "all", stays: true},
		"zones":         {kinds: "all", options: Options{Zones: Zones{Frozen: new(9)}}},
		"observed":      {kinds: "results", options: Options{Policy: Observe}},
	} {
		o := c.options
		o.Prune.Mode, o.CompactToolResults.Mode, o.StripNarration.Mode, o.Admission.Mode = stage.Off, stage.Off, stage.Off,
			stage.Off
		o.Breakpoints.Mode, o.Planner.FoldInputs = stage.Off, new(false)
		s := newScript(t, o, keeping)
		known := map[wire.Hash]Shortened{}
		s.wordy(known, kinds[c.kinds]...)
		s.prompt(text("prompt"))
		_, offered := s.unread()
		if len(offered) != 0 {
			t.Errorf("%s: what the person wrote is offered", name)
		}
		for i, x := range []struct {
			tool, input, what string
			failed            bool
		}{
			{"WebFetch", `{"url":"u"}`, "fetch", false},
			{"Read", `{"file_path":"/a"}`, "read", false},
			{"Bash", `{"command":"make"}`, "make", false},
			{"Grep", `{"pattern":"p"}`, "grep", false},
			{"WebFetch", `{"url":"v"}`, "error", true},
			{"Edit", `{"file_path":"/a","old_string":"a","new_string":"b"}`, "edit", false},
			{"WebFetch", `{"url":"w"}`, "short", false},
		} {
			said, result := "I see.", text(x.what)
			if i == 0 {
				said = text("said")
			}
			if x.what == "short" {
				result = "few words"
			}
			s.calling(i, x.tool, x.input, said, result, x.failed)
		}
		for i := range 3 { // with the next one, the last four turns
			s.calling(100+i, "WebFetch", `{"url":"last"}`, "I see.", text("last"), false)
		}
		_, offered = s.unread()
		for block, text := range offered {
			if !c.unknown {
				known[block] = Shortened{Text: "short " + strings.Fields(text)[3], Took: time.Second}
			}
			if c.stays {
				known[block] = Shortened{}
			}
		}
		if !c.warm {
			s.now = s.now.Add(10 * time.Minute)
		}
		s.calling(999, "Read", `{"file_path":"/z"}`, "I see.", "few", false)
		x, again := s.unread()
		body := string(x.Prompt.Body.Bytes())
		got := ""
		for _, what := range []string{"edit", "error", "fetch", "grep", "last", "make", "prompt", "read", "said"} {
			if strings.Contains(body, `\nshort `+what+`"`) {
				got += " " + what
			}
		}
		if got = strings.TrimSpace(got); got != c.want {
			t.Errorf("%s: words were left out of %q, want %q", name, got, c.want)
		}
		n := len(strings.Fields(c.want))
		if count(x, stage.Compress) != n && name != "observed" || x.Prompt.Compressed.Texts != count(x, stage.Compress) ||
			n > 0 && (x.Prompt.Compressed.Tokens <= 0 || x.Prompt.Compressed.Took != time.Duration(n)*time.Second) {
			t.Errorf("%s: %+v, %v", name, x.Prompt.Compressed, x.Prompt.Fired)
		}
		if c.unknown != (len(again) > 0) {
			t.Errorf("%s: %d texts are offered again", name, len(again))
		}
		// Cached texts stay unchanged, even after their results are known.
		known[wire.Hash{}] = Shortened{}
		for block := range known {
			known[block] = Shortened{Text: "other"}
		}
		s.calling(1000, "Read", `{"file_path":"/y"}`, "I see.", "few", false)
		y, _ := s.unread()
		before, _, _ := strings.Cut(body, s.marker+"}]}]")
		if name != "observed" && !strings.HasPrefix(string(y.Prompt.Body.Bytes()), before) {
			t.Errorf("%s: the prefix has changed", name)
		}
	}
}

// Results after more text than is read are sent unmodified, and earlier ones are edited as usual,
// in a known and in a forgotten session.
func TestResultsBehindMuchText(t *testing.T) {
	s, forgotten := newScript(t, admitting(Eager), unbound), newScript(t, admitting(Eager), unbound)
	s.prompt("Look around.")
	s.send(wire.Turn{Text: "I look.", Done: true})
	for i, lines := range []int{50, 90_000, 91_000, 92_000, 60} {
		s.result(i, "Read", fmt.Sprintf(`{"file_path":"/src/%d.go"}`, i), read(lines))
	}
	first := s.send(s.answer)
	if size := len(s.body()); size < 9<<20 {
		t.Fatalf("a request of %d bytes", size)
	}
	s.prompt("Go on.")
	forgotten.messages = s.messages
	for name, x := range map[string]*Transaction{
		"first": first, "known": s.send(wire.Turn{Text: "Yes.", Done: true}),
		"forgotten": forgotten.send(wire.Turn{Text: "Yes.", Done: true}),
	} {
		if n := count(x, stage.Admission); n != 3 {
			t.Errorf("%s: %d results are edited, want the three in front", name, n)
		}
		body := string(x.Prompt.Body.Bytes())
		for lines, whole := range map[int]bool{50: false, 90_000: false, 91_000: false, 92_000: true, 60: true} {
			if strings.Contains(body, `"content":`+read(lines)) != whole {
				t.Errorf("%s: of %d lines, whole: %t", name, lines, !whole)
			}
		}
	}
}
