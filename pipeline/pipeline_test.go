// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// script plays a conversation of a coding agent through a pipeline: each turn is a response with
// optional thinking, a sentence and one call, and the call's result.
type script struct {
	t        testing.TB
	p        *Pipeline
	s        *sessioncache.Session
	format   wire.Format
	marker   string // the marker on the client's last block
	head     string // further members of the client's requests
	system   string // the system prompt
	tools    string // the list of tools
	now      time.Time
	messages []string
	answer   wire.Turn
}

var binding, keeping = pricing.Rules{
	Regime: pricing.Markers, Markers: 4, LookBack: 20, CollapseRuns: true, BindsThinking: true, KeepsThinking: true,
	Write: 1.25, Write1h: 2, Read: 0.05, TTL: 5 * time.Minute, LongTTL: time.Hour, MinTokens: 512,
}, pricing.Rules{
	Regime: pricing.Markers, Markers: 4, LookBack: 20, CollapseRuns: true, KeepsThinking: true,
	Write: 1.25, Write1h: 2, Read: 0.1, TTL: 5 * time.Minute, LongTTL: time.Hour, MinTokens: 1024,
}

// hardly is a model with a low need of every block: these tests are about the time and the form of
// folds, not about fitted weights.
var hardly = &NeedModel{{Base: -12}, {Base: -12}, {Base: -12}}

func newScript(t testing.TB, o Options, rules pricing.Rules) *script {
	if o.Planner.Need == nil {
		o.Planner.Need = hardly
	}
	t.Helper()
	m, err := sessioncache.New(sessioncache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := m.Acquire(t.Context(), sessioncache.Key{ID: "s"})
	t.Cleanup(func() { m.Release(s) })
	return &script{
		t: t, s: s, format: wire.Anthropic, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		p:      New(o, func(string, time.Time) pricing.Rules { return rules }),
		marker: `,"cache_control":{"type":"ephemeral"}`, system: "You are helpful.", tools: `{"name":"Read"}`,
	}
}

func (s *script) add(message string) { s.messages = append(s.messages, message) }

// prompt adds a human prompt.
func (s *script) prompt(text string) {
	s.add(fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":%q}]}`, text))
}

// turn adds a response that calls a tool on a path, and the result.
func (s *script) turn(n int, path, result string, more ...string) {
	thought := ""
	if len(more) > 0 {
		thought = fmt.Sprintf(`{"type":"thinking","thinking":%q,"signature":"sig%d"},`, more[0], n)
	}
	args := fmt.Sprintf(`{"file_path":%q}`, path)
	s.answer = wire.Turn{
		Text:  "Let me read it.",
		Calls: []wire.Call{{ID: fmt.Sprint("t", n), Name: "Read", Arguments: args}}, Done: true,
	}
	s.add(fmt.Sprintf(`{"role":"assistant","content":[%s{"type":"text","text":"Let me read it."},{"type":"tool_use",`+
		`"id":"t%d","name":"Read","input":%s}]}`, thought, n, args))
	s.add(fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":%s}]}`, n,
		content.Quote(result)))
}

// final adds a response without a call.
func (s *script) final(text string) {
	s.answer = wire.Turn{Text: text, Done: true}
	s.add(fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":%q}]}`, text))
}

func (s *script) body() string {
	n := len(s.messages) - 1
	last := strings.TrimSuffix(s.messages[n], "}]}") + s.marker + "}]}"
	return `{"model":"m",` + s.head + `"messages":[` + strings.Join(append(s.messages[:n:n], last), ",") +
		`],"system":[{"type":"text","text":"` + s.system + `"` + s.marker + `}],"tools":[` + s.tools + `]}`
}

// send sends the added messages as one request and commits it; the response is the turn added next.
func (s *script) send(answer wire.Turn) *Transaction {
	s.t.Helper()
	v, err := wire.Parse(s.format, []byte(s.body()), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	x := s.p.Begin(v, s.s, s.now)
	if x.Prompt.Err != nil {
		s.t.Fatal(x.Prompt.Err)
	}
	if !json.Valid(x.Prompt.Body.Bytes()) {
		s.t.Fatalf("not JSON: %s", x.Prompt.Body.Bytes())
	}
	if answer.Done {
		x.Commit(&answer, s.now.Add(5*time.Second))
	} else {
		x.Abandon()
	}
	s.now = s.now.Add(10 * time.Second)
	return x
}

func long(what string) string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "%s line %d of the file with some text\n", what, i)
	}
	return b.String()
}

// run plays n turns, one request after each.
func (s *script) run(from, n int, thoughts bool) []*Transaction {
	out := make([]*Transaction, 0, n)
	for i := from; i < from+n; i++ {
		var more []string
		if thoughts {
			more = []string{fmt.Sprint("thought ", i)}
		}
		answer := wire.Turn{Text: "unrelated words", Done: true}
		out = append(out, s.send(answer))
		s.turn(i, fmt.Sprintf("/src/file%d.go", i), long(fmt.Sprint("f", i)), more...)
	}
	return out
}

func count(x *Transaction, stage string) int {
	for _, f := range x.Prompt.Fired {
		if f.Stage == stage {
			return f.Count
		}
	}
	return 0
}

// prefix returns the common prefix of two bodies: the number of message blocks with equal canonical
// hashes.
func prefix(t testing.TB, a, b []byte) (shared, of int) {
	t.Helper()
	v, err := wire.Parse(wire.Anthropic, a, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := wire.Parse(wire.Anthropic, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, y := v.MessageBlocks(), w.MessageBlocks()
	for shared < min(len(x), len(y)) && x[shared].Hash == y[shared].Hash {
		shared++
	}
	return shared, len(x)
}

func TestEagerFiresInTheMiddleOnly(t *testing.T) {
	s := newScript(t, Options{Policy: Eager, Prune: Prune{Mode: stage.Off}}, keeping)
	s.prompt("Fix the bug.")
	xs := s.run(0, 12, false)
	for i, x := range xs {
		// Requests 0..: i turns so far; the first 2 are frozen, the last 4 hot.
		want := max(0, i-6)
		if got := count(x, stage.ToolResults); got != want {
			t.Errorf("request %d: %d results compacted, want %d", i, got, want)
		}
		if got := count(x, stage.Narration); got != want {
			t.Errorf("request %d: %d sentences removed, want %d", i, got, want)
		}
	}
	last := string(xs[11].Prompt.Body.Bytes())
	for _, want := range []string{`[Compacted: 60 lines, `, `f2 line 0 of`, `f1 line 59`, `f8 line 59`} {
		if !strings.Contains(last, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(last, "f2 line 1 ") || strings.Contains(last, "f6 line 59") {
		t.Error("a result of the middle zone went out whole")
	}
}

// The sent prompt only grows at its end, except at the hot edge.
func TestEagerIsStableBehindTheFrontier(t *testing.T) {
	s := newScript(t, Options{Policy: Eager}, keeping)
	s.prompt("Fix the bug.")
	xs := s.run(0, 14, false)
	for i := 1; i < len(xs); i++ {
		shared, of := prefix(t, xs[i-1].Prompt.Body.Bytes(), xs[i].Prompt.Body.Bytes())
		if i > 8 && (of-shared > 4*3 || xs[i].Prompt.Markers != 1) {
			t.Errorf("request %d: shares %d of %d blocks, %d markers", i, shared, of, xs[i].Prompt.Markers)
		}
	}
}

func TestRetryGivesTheSameBytes(t *testing.T) {
	for _, policy := range []Policy{Eager, CostAware} {
		s := newScript(t, Options{Policy: policy}, keeping)
		s.prompt("Fix the bug.")
		s.run(0, 12, true)
		s.now = s.now.Add(time.Hour) // cold
		a := s.send(wire.Turn{})     // the response fails
		b := s.send(wire.Turn{Done: true})
		if !a.Prompt.Edited || string(a.Prompt.Body.Bytes()) != string(b.Prompt.Body.Bytes()) {
			t.Errorf("%s: the retry differs (edited %t)", policy, a.Prompt.Edited)
		}
	}
}

func TestCostAware(t *testing.T) {
	s := newScript(t, Options{Expand: Expand{Mode: stage.Off}}, keeping)
	s.prompt("Fix the bug.")
	for i, x := range s.run(0, 12, true) {
		if x.Prompt.Edited {
			t.Fatalf("request %d was edited while warm: %v", i, x.Prompt.Fired)
		}
	}
	s.now = s.now.Add(4 * time.Minute)
	if x := s.send(wire.Turn{Done: true}); x.Prompt.Edited {
		t.Fatal("edited although still warm")
	}
	s.now = s.now.Add(7 * time.Minute)
	x := s.send(wire.Turn{Done: true})
	if count(x, stage.Prune) < 8 || count(x, stage.Narration) < 8 || x.Decision.Epoch != planner.Cold ||
		x.Decision.Folded != count(x, stage.Prune) {
		t.Fatalf("cold: %v, %+v", x.Prompt.Fired, x.Decision)
	}
	// In an open run of calls, thinking must stay.
	if count(x, stage.Thinking) != 0 {
		t.Errorf("thinking of the open run was removed: %v", x.Prompt.Fired)
	}
	s.turn(50, "/src/other.go", long("other"))
	y := s.send(wire.Turn{Done: true})
	if shared, of := prefix(t, x.Prompt.Body.Bytes(), y.Prompt.Body.Bytes()); shared != of {
		t.Errorf("warm again, but only %d of %d blocks stayed", shared, of)
	}
}

// A rewind is sent as its conversation was, although a side request has begun alike since.
func TestRewindBehindASideRequest(t *testing.T) {
	s := newScript(t, Options{}, keeping)
	s.prompt("Fix the bug.")
	s.run(0, 12, false)
	s.now = s.now.Add(7 * time.Minute)
	x := s.send(wire.Turn{Done: true})
	if count(x, stage.Prune) == 0 {
		t.Fatalf("nothing is folded: %v", x.Prompt.Fired)
	}
	all := s.messages
	s.messages = all[:1:1]
	s.prompt("What is this about?")
	if y := s.send(wire.Turn{Text: "A bug.", Done: true}); y.Conversation == x.Conversation {
		t.Fatal("the side request goes on with the conversation")
	}
	n := len(all) - 4
	s.messages = all[:n:n]
	s.prompt("Rather look elsewhere.")
	y := s.send(wire.Turn{Text: "Well.", Done: true})
	if shared, of := prefix(t, y.Prompt.Body.Bytes(), x.Prompt.Body.Bytes()); shared != of-1 || count(y, stage.Prune) == 0 {
		t.Errorf("%d blocks of %d go out as they did: %v", shared, of-1, y.Prompt.Fired)
	}
	s.final("Well.")
	s.prompt("Go on.")
	if z := s.send(wire.Turn{Done: true}); z.Conversation != y.Conversation {
		t.Error("the rewind does not go on")
	} else if shared, of := prefix(t, y.Prompt.Body.Bytes(), z.Prompt.Body.Bytes()); shared != of {
		t.Errorf("shares %d of %d blocks", shared, of)
	}
}

// A history unknown to this process may be cached upstream.
func TestUnseenHistoryIsLeftAlone(t *testing.T) {
	for _, c := range []struct {
		unseen time.Duration
		want   bool
	}{{0, false}, {2 * time.Hour, true}} {
		s := newScript(t, Options{Expand: Expand{Mode: stage.Off}}, keeping)
		s.s.Unseen = c.unseen
		s.prompt("Fix the bug.")
		for i := range 12 {
			s.turn(i, fmt.Sprintf("/src/file%d.go", i), long(fmt.Sprint("f", i)))
		}
		if x := s.send(wire.Turn{Done: true}); x.Prompt.Edited != c.want {
			t.Errorf("watching for %s: edited = %t", c.unseen, x.Prompt.Edited)
		}
	}
}

func TestObserveSendsTheOriginal(t *testing.T) {
	s := newScript(t, Options{Policy: Observe}, keeping)
	s.prompt("Fix the bug.")
	s.run(0, 12, true)
	s.now = s.now.Add(time.Hour)
	body := s.body()
	x := s.send(wire.Turn{Done: true})
	if x.Prompt.Edited || string(x.Prompt.Body.Bytes()) != body {
		t.Error("the body was changed")
	}
	if len(x.Prompt.Fired) == 0 || x.Prompt.SentTokens >= x.Prompt.OriginalTokens {
		t.Errorf("nothing was observed: %v, %d of %d tokens", x.Prompt.Fired, x.Prompt.SentTokens, x.Prompt.OriginalTokens)
	}
	// Edits that were only observed have not been sent.
	s.p = New(Options{}, s.p.rules)
	if x := s.send(wire.Turn{Done: true}); x.Prompt.Edited {
		t.Errorf("observed edits were replayed: %v", x.Prompt.Fired)
	}
}

// TestHoldout: a session of the control group is sent as the client wrote it, and one outside it is edited.
func TestHoldout(t *testing.T) {
	for _, c := range []struct {
		name  string
		above float64 // of the share, over the session's sample
		held  bool
	}{{"inside", 1e-9, true}, {"outside", 0, false}} {
		s := newScript(t, Options{}, keeping)
		s.p = New(Options{Holdout: s.s.Sample() + c.above}, s.p.rules)
		s.prompt("Fix the bug.")
		s.run(0, 12, true)
		s.now = s.now.Add(time.Hour)
		x := s.send(wire.Turn{Done: true})
		if x.Holdout() != c.held || x.Prompt.Edited == c.held || (x.Policy == Observe) != c.held {
			t.Errorf("%s: got holdout %t, edited %t under %s, want holdout %t", c.name, x.Holdout(), x.Prompt.Edited, x.Policy,
				c.held)
		}
		if x.Prompt.SentTokens >= x.Prompt.OriginalTokens {
			t.Errorf("%s: no edit is computed: %d of %d tokens", c.name, x.Prompt.SentTokens, x.Prompt.OriginalTokens)
		}
		// A new share leaves an edited conversation as it is.
		s.p = New(Options{Holdout: maxHoldout}, s.p.rules)
		if x := s.send(wire.Turn{Done: true}); !c.held && (x.Holdout() || !x.Prompt.Edited) {
			t.Errorf("%s: edits in force were withdrawn", c.name)
		}
	}
}

// On models that bind thinking to its past, no thinking is sent after a change that it has not
// seen.
func TestThinkingBoundToItsPast(t *testing.T) {
	s := newScript(t, Options{Policy: Eager}, binding)
	s.prompt("Fix the bug.")
	for i, x := range s.run(0, 12, true) {
		if n := count(x, stage.ToolResults) + count(x, stage.Prune) + count(x, stage.Narration); n > 0 {
			t.Fatalf("request %d: edited in an open run: %v", i, x.Prompt.Fired)
		}
	}
	s.final("Done.")
	s.prompt("Now the tests.")
	x := s.send(wire.Turn{Done: true})
	if count(x, stage.ToolResults)+count(x, stage.Prune) == 0 {
		t.Fatalf("not edited between two tasks: %v", x.Prompt.Fired)
	}
	v, err := wire.Parse(wire.Anthropic, x.Prompt.Body.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	edited := false
	for _, b := range v.MessageBlocks() {
		text := string(v.Bytes(b.Body))
		edited = edited || strings.Contains(text, "[Compacted") || strings.Contains(text, content.StubFrame)
		if edited && b.Kind == wire.KindThinking {
			t.Fatal("thinking stands behind an edit that it has not seen")
		}
	}
	// New thinking has seen the edits; both stay.
	s.turn(60, "/src/new.go", long("new"), "new thought")
	y := s.send(wire.Turn{Done: true})
	if shared, of := prefix(t, x.Prompt.Body.Bytes(), y.Prompt.Body.Bytes()); shared != of ||
		!strings.Contains(string(y.Prompt.Body.Bytes()), "new thought") {
		t.Errorf("shares %d of %d", shared, of)
	}
}

func TestPruneCountsReferences(t *testing.T) {
	s := newScript(t, Options{
		Policy: Eager, CompactToolResults: CompactToolResults{Mode: stage.Off},
		Prune: Prune{After: new(3)},
	}, keeping)
	s.prompt("Fix the bug.")
	var x *Transaction
	for i := range 13 {
		answer := wire.Turn{Text: "unrelated", Done: true}
		switch {
		case i == 7 || i == 10:
			answer.Text = "In file3.go there is a mistake." // names its file
		case i == 8 || i == 11:
			// quotes a line
			answer.Calls = []wire.Call{{Name: "Edit", Arguments: `{"old_string":"x\nf4 line 7 of the file with some text"}`}}
		}
		x = s.send(answer)
		s.turn(i, fmt.Sprintf("/src/file%d.go", i), long(fmt.Sprint("f", i)))
	}
	body := string(x.Prompt.Body.Bytes())
	for i, want := range map[int]bool{
		0: false, 1: false, 2: true, 3: false, 4: false, 5: true, 6: true, 7: true,
		8: false,
	} {
		if got := strings.Contains(body, fmt.Sprintf("Read /src/file%d.go, 60 lines", i)); got != want {
			t.Errorf("result %d pruned: %t, want %t", i, got, want)
		}
	}
}

func TestResultsThatStay(t *testing.T) {
	s := newScript(t, Options{Policy: Eager}, keeping)
	s.prompt("Fix the bug.")
	s.run(0, 3, false)
	text := string(content.Quote(long("mixed")))
	image := `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`
	s.add(`{"role":"assistant","content":[{"type":"tool_use","id":"m1","name":"Shot","input":{}},{"type":"tool_use",` +
		`"id":"m2","name":"Run","input":{"command":"make"}}]}`)
	s.add(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"m1","content":[` + image +
		`,{"type":"text","text":` + text + `}]},{"type":"tool_result","tool_use_id":"m2","is_error":true,"content":` +
		text + `}]}`)
	xs := s.run(10, 8, false)
	body := string(xs[7].Prompt.Body.Bytes())
	if !strings.Contains(body, `},`+image+`]},{"type":"tool_result","tool_use_id":"m2","is_error":true,"content":`+text) {
		t.Errorf("an image or an error was changed: %s", body)
	}
	if strings.Count(body, text) != 1 {
		t.Error("the text beside the image was not compacted")
	}
}

// BenchmarkBegin measures the decision about the next request of a known conversation, with a
// history of so many turns.
func BenchmarkBegin(b *testing.B) {
	for _, turns := range []int{10, 100, 500} {
		s := newScript(b, Options{}, keeping)
		s.prompt("Fix the build.")
		s.run(0, turns, false)
		s.final("Done.")
		s.send(wire.Turn{Text: "Done."})
		s.prompt("And the tests.")
		raw := []byte(s.body())
		b.Run(fmt.Sprint(turns, " turns"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v, err := wire.Parse(s.format, raw, nil)
				if err != nil {
					b.Fatal(err)
				}
				s.p.Begin(v, s.s, s.now).Abandon()
			}
		})
	}
}
