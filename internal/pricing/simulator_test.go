// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func parse(t testing.TB, f wire.Format, body string) *wire.View {
	t.Helper()
	v, err := wire.Parse(f, []byte(body), nil)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return v
}

// rules are Anthropic's with a minimum that short tests reach.
func rules(change func(*Rules)) SimulatorConfig {
	r := Lookup("anthropic", "claude-sonnet-4-6", today)
	r.MinTokens = 1
	if change != nil {
		change(&r)
	}
	return SimulatorConfig{Rules: func(string, time.Time) Rules { return r }}
}

// script drives a simulator.
type script struct {
	t   *testing.T
	sim *Simulator
	at  time.Duration
	key string
}

func (s *script) view(body string) *wire.View { return parse(s.t, wire.Anthropic, body) }

// send sends a request whose answer begins at once.
func (s *script) send(body string) wire.Usage {
	s.t.Helper()
	run, err := s.sim.Begin(Call{View: s.view(body), Credential: s.key, At: start.Add(s.at)})
	if err != nil {
		s.t.Fatalf("refused: %v", err)
	}
	run.FirstByte(start.Add(s.at))
	return run.Usage()
}

// texts is a request of one user message with the blocks from..to, and a marker of
// the given ttl on those that marks names.
func texts(from, to int, marks map[int]string) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		if i > from {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"text","text":"block number %d"%s}`, i, mark(marks[i]))
	}
	return `{"model":"m","messages":[{"role":"user","content":[` + b.String() + `]}]}`
}

func mark(ttl string) string {
	switch ttl {
	case "":
		return ""
	case "5m":
		return `,"cache_control":{"type":"ephemeral"}`
	}
	return `,"cache_control":{"type":"ephemeral","ttl":"` + ttl + `"}`
}

func at(blocks ...int) map[int]string {
	m := make(map[int]string)
	for _, b := range blocks {
		m[b] = "5m"
	}
	return m
}

// length is what the first n blocks of texts take.
func length(t testing.TB, n int) int64 {
	if n == 0 {
		return 0
	}
	return NewSimulator(rules(nil)).Count(parse(t, wire.Anthropic, texts(1, n, nil)))
}

// shares checks a usage against the numbers of blocks read, written for 1h, written
// for 5m and neither, in this order.
func shares(t *testing.T, what string, u wire.Usage, read, long, short, rest int) {
	t.Helper()
	l := func(n int) int64 { return length(t, n) }
	want := wire.Usage{
		Read: l(read), Write1h: l(read+long) - l(read), Write5m: l(read+long+short) - l(read+long),
		Uncached: l(read+long+short+rest) - l(read+long+short), Reported: true,
	}
	if u != want {
		t.Errorf("%s: got %+v, want %+v", what, u, want)
	}
}

func TestLookBackIsTwentyPositions(t *testing.T) { // the provider's worked example
	s := &script{t: t, sim: NewSimulator(rules(nil))}
	shares(t, "10 blocks", s.send(texts(1, 10, at(10))), 0, 0, 10, 0)
	shares(t, "15 blocks", s.send(texts(1, 15, at(15))), 10, 0, 5, 0)
	probe := *s
	probe.sim = NewSimulator(rules(nil))
	probe.send(texts(1, 10, at(10)))
	probe.send(texts(1, 15, at(15)))
	shares(t, "34 blocks: the entry is the twentieth position", probe.send(texts(1, 34, at(34))), 15, 0, 19, 0)
	shares(t, "35 blocks with a second marker", s.send(texts(1, 35, at(15, 35))), 15, 0, 20, 0)
	s.sim = NewSimulator(rules(nil))
	s.send(texts(1, 10, at(10)))
	s.send(texts(1, 15, at(15)))
	shares(t, "35 blocks: missed by one", s.send(texts(1, 35, at(35))), 0, 0, 35, 0)
}

func TestNothingIsReadThatWasNotWritten(t *testing.T) { // the second example
	s := &script{t: t, sim: NewSimulator(rules(nil))}
	for i := range 5 {
		body := strings.Replace(texts(1, 6, at(6)), "block number 6", fmt.Sprintf("block number %d", i), 1)
		if u := s.send(body); u.Read != 0 || u.Write5m != length(t, 6) {
			t.Errorf("request %d: %+v", i, u)
		}
	}
}

func TestMixedLifetimes(t *testing.T) {
	s := &script{t: t, sim: NewSimulator(rules(nil))}
	shares(t, "first", s.send(texts(1, 10, map[int]string{3: "1h", 6: "1h", 9: "5m"})), 0, 6, 3, 1)
	shares(t, "long after long", s.send(texts(1, 12, map[int]string{3: "1h", 10: "1h", 12: "5m"})), 9, 1, 2, 0)
	s.at = 6 * time.Minute
	shares(t, "the short ones are gone", s.send(texts(1, 12, map[int]string{3: "1h", 12: "5m"})), 10, 0, 2, 0)
	s.at = 59 * time.Minute
	shares(t, "the long ones are not", s.send(texts(1, 8, map[int]string{8: "5m"})), 6, 0, 2, 0)
	s.at = 118 * time.Minute
	shares(t, "read at 0:59, alive", s.send(texts(1, 6, nil)+""), 0, 0, 0, 6)
	shares(t, "with a marker", s.send(texts(1, 6, at(6))), 6, 0, 0, 0)
}

func TestBucketsAreExclusive(t *testing.T) {
	s := &script{t: t, sim: NewSimulator(rules(nil))}
	s.send(texts(1, 5, at(5)))
	body := texts(1, 9, at(5, 7))
	if u, n := s.send(body), s.sim.Count(s.view(body)); u.Prompt() != n || u.Uncached == 0 || u.Read == 0 ||
		u.Write5m == 0 {
		t.Errorf("%+v does not sum up to %d", u, n)
	}
}

func TestMarkersAreNotHashed(t *testing.T) {
	s := &script{t: t, sim: NewSimulator(rules(nil))}
	s.send(texts(1, 5, at(2, 5)))
	shares(t, "moved", s.send(texts(1, 7, at(7))), 5, 0, 2, 0)
	one := `{"model":"m","messages":[{"role":"user","content":"alone"}]%s}`
	s.send(fmt.Sprintf(one, `,"cache_control":{"type":"ephemeral"}`))
	array := `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"alone",` +
		`"cache_control":{"type":"ephemeral"}}]}]}`
	if u := s.send(array); u.Read == 0 || u.Write5m != 0 {
		t.Errorf("a lone text in an array is another block than as a string: %+v", u)
	}
}

func TestLifetimeRunsFromTheStart(t *testing.T) {
	sim := NewSimulator(rules(nil))
	v := parse(t, wire.Anthropic, texts(1, 5, at(5)))
	begin := func(after time.Duration) *Run {
		run, err := sim.Begin(Call{View: v, At: start.Add(after)})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	begin(0).FirstByte(start.Add(4 * time.Minute)) // a slow answer uses the lifetime up
	if u := begin(5*time.Minute - time.Second).Usage(); u.Read == 0 {
		t.Error("not found a second before its end")
	}
	// That hit began a new lifetime, though it was never answered.
	if u := begin(10*time.Minute - 2*time.Second).Usage(); u.Read == 0 {
		t.Error("a hit does not refresh")
	}
	if u := begin(15*time.Minute - 2*time.Second).Usage(); u.Read != 0 {
		t.Error("found at the end of its lifetime")
	}
}

func TestOnlyTheEntryFoundIsRefreshed(t *testing.T) {
	s := &script{t: t, sim: NewSimulator(rules(nil))}
	s.send(texts(1, 9, at(3, 9)))
	s.at = 4 * time.Minute
	s.send(texts(1, 9, at(3, 9)))
	s.at = 6 * time.Minute
	shares(t, "the longer one", s.send(texts(1, 9, at(9))), 9, 0, 0, 0)
	shares(t, "the shorter one", s.send(texts(1, 3, at(3))), 0, 0, 3, 0)
}

func TestVisibleFromTheFirstByte(t *testing.T) {
	sim := NewSimulator(rules(nil))
	v := parse(t, wire.Anthropic, texts(1, 5, at(5)))
	begin := func(after time.Duration) *Run {
		run, err := sim.Begin(Call{View: v, At: start.Add(after)})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	a, b := begin(0), begin(time.Second)
	if a.Usage().Write5m == 0 || b.Usage() != a.Usage() {
		t.Errorf("twins: %+v and %+v, both write", a.Usage(), b.Usage())
	}
	a.FirstByte(start.Add(2 * time.Second))
	a.FirstByte(start.Add(time.Hour)) // changes nothing
	if u := begin(3 * time.Second).Usage(); u.Read == 0 {
		t.Error("not visible after the first byte")
	}
	if u := begin(time.Second).Usage(); u.Read != 0 {
		t.Error("visible before the first byte")
	}
	failed := NewSimulator(rules(nil))
	if _, err := failed.Begin(Call{View: v, At: start}); err != nil {
		t.Fatal(err)
	}
	run, err := failed.Begin(Call{View: v, At: start.Add(time.Second)})
	if err != nil || run.Usage().Read != 0 {
		t.Errorf("an answer that never began has written: %v", err)
	}
}

func TestMinimumIsOnTheWholePrefix(t *testing.T) {
	minTokens := length(t, 6)
	s := &script{t: t, sim: NewSimulator(rules(func(r *Rules) { r.MinTokens = int(minTokens) }))}
	shares(t, "too short", s.send(texts(1, 5, at(5))), 0, 0, 0, 5)
	shares(t, "long enough", s.send(texts(1, 6, at(3, 6))), 0, 0, 6, 0)
	shares(t, "a short increment", s.send(texts(1, 7, at(7))), 6, 0, 1, 0)
	shares(t, "nothing was written at the third", s.send(texts(1, 5, at(3, 5))), 0, 0, 0, 5)
}

func TestIsolation(t *testing.T) {
	s := &script{t: t, sim: NewSimulator(SimulatorConfig{}), key: "one"}
	long := strings.Repeat("A rule that is long enough to be cached by itself. ", 400)
	body := `{"model":"claude-sonnet-4-6","system":[{"type":"text","text":"` + long +
		`","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hi"}]}`
	s.send(body)
	if u := s.send(body); u.Read == 0 {
		t.Fatalf("the same credential reads nothing: %+v", u)
	}
	if u := s.send(strings.Replace(body, "sonnet-4-6", "opus-4-8", 1)); u.Read != 0 {
		t.Error("another model reads it")
	}
	s.key = "two"
	if u := s.send(body); u.Read != 0 {
		t.Error("another credential reads it")
	}
	s.key = "one"
	if u := s.send(strings.Replace(body, "sonnet-4-6", "sonnet-4-6-20260217", 1)); u.Read == 0 {
		t.Error("the same model under its dated name does not read it")
	}
}

func TestRunsAreOnePosition(t *testing.T) {
	turn := func(n int) string {
		uses, results := make([]string, 0, n), make([]string, 0, n)
		for i := range n {
			uses = append(uses, fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":"read","input":{"n":%d}}`, i, i))
			results = append(results, fmt.Sprintf(`{"type":"tool_result","tool_use_id":"toolu_%d","content":"result %d"}`, i, i))
		}
		return `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"go",` +
			`"cache_control":{"type":"ephemeral"}}]},` +
			`{"role":"assistant","content":[` + strings.Join(uses, ",") + `]},{"role":"user","content":[` +
			strings.Join(results, ",") + `,` +
			`{"type":"text","text":"end","cache_control":{"type":"ephemeral"}}]}]}`
	}
	first := `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"go",` +
		`"cache_control":{"type":"ephemeral"}}]}]}`
	unmarked := strings.Replace(turn(30), mark("5m"), "", 1)
	for collapse, found := range map[bool]bool{true: true, false: false} {
		s := &script{t: t, sim: NewSimulator(rules(func(r *Rules) { r.CollapseRuns = collapse }))}
		s.send(first)
		if u := s.send(unmarked); (u.Read > 0) != found {
			t.Errorf("60 tool blocks after the entry, runs collapsed %v: %+v", collapse, u)
		}
	}
}

func TestWhatInvalidates(t *testing.T) {
	base := `{"model":"m","tools":[{"name":"a","input_schema":{}%s}],"system":[{"type":"text","text":"rules"%s}],` +
		`"messages":[{"role":"user","content":[{"type":"text","text":"hello"%s}]}]%s}`
	m := mark("5m")
	body := fmt.Sprintf(base, m, m, m, "")
	count := func(s string) int64 { return NewSimulator(rules(nil)).Count(parse(t, wire.Anthropic, s)) }
	all := count(body)
	for _, c := range []struct {
		name, body string
		keeps      int // 0 nothing, 1 up to the system prompt, 2 all
	}{
		{"same", body, 2},
		{"tool_choice", fmt.Sprintf(base, m, m, m, `,"tool_choice":{"type":"none"}`), 1},
		{"thinking", fmt.Sprintf(base, m, m, m, `,"thinking":{"type":"adaptive"}`), 1},
		{"effort", fmt.Sprintf(base, m, m, m, `,"output_config":{"effort":"low"}`), 1},
		{"default effort", fmt.Sprintf(base, m, m, m, `,"output_config": { "effort" : "high" }`), 2},
		{"max_tokens, metadata, stream", fmt.Sprintf(base, m, m, m, `,"max_tokens":9,"stream":true,"metadata":{}`), 2},
		{"an image", strings.Replace(body, `"hello"`+m+`}`,
			`"hello"`+m+`},{"type":"image","source":{"type":"base64","data":""}}`, 1), 1},
		{"tool order", strings.Replace(body, `{"name":"a"`, `{"name":"b"},{"name":"a"`, 1), 0},
		{"system", strings.Replace(body, `"rules"`, `"rule"`, 1), -1},
	} {
		s := &script{t: t, sim: NewSimulator(rules(nil))}
		s.send(body)
		u := s.send(c.body)
		want := []int64{0, all - count(`{"messages":[{"role":"user","content":"hello"}]}`), all}
		if c.keeps < 0 { // the tools alone
			want = []int64{all - count(`{"messages":[{"role":"user","content":"hello"}]}`) - count(`{"messages":[{"role":"user","content":"x"}],"system":"rules"}`) + count(`{"messages":[{"role":"user","content":"x"}]}`)}
			c.keeps = 0
		}
		if u.Read != want[c.keeps] {
			t.Errorf("%s: read %d, want %d", c.name, u.Read, want[c.keeps])
		}
	}
}

func TestOldThinkingIsStripped(t *testing.T) {
	loop := `{"model":"m","messages":[{"role":"user","content":"go"},{"role":"assistant","content":[` +
		`{"type":"thinking","thinking":"` + strings.Repeat("well ", 100) +
		`","signature":"sig"},{"type":"tool_use","id":"t1","name":"r","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok",` +
		`"cache_control":{"type":"ephemeral"}}]}]}`
	next := strings.Replace(loop, mark("5m"), "", 1)
	next = strings.TrimSuffix(next, "]}") +
		`,{"role":"assistant","content":"done"},{"role":"user","content":[{"type":"text","text":"more",` +
		`"cache_control":{"type":"ephemeral"}}]}]}`
	for _, keeps := range []bool{true, false} {
		s := &script{t: t, sim: NewSimulator(rules(func(r *Rules) { r.KeepsThinking = keeps }))}
		written := s.send(loop).Write5m
		if written < 140 {
			t.Fatalf("the thinking of an open loop does not count: %d tokens", written)
		}
		u := s.send(next)
		if keeps && u.Read != written {
			t.Errorf("kept thinking: read %d of %d", u.Read, written)
		}
		if !keeps && (u.Read != 0 || u.Prompt() > 60) {
			t.Errorf("stripped thinking: %+v", u)
		}
	}
}

func TestDeferredToolsAreOutside(t *testing.T) {
	s := &script{t: t, sim: NewSimulator(rules(nil))}
	body := `{"model":"m","tools":[{"name":"a"}%s],"messages":[{"role":"user","content":[{"type":"text","text":"hi",` +
		`"cache_control":{"type":"ephemeral"}}]}]}`
	u := s.send(fmt.Sprintf(body, ""))
	if again := s.send(fmt.Sprintf(body, `,{"name":"b","defer_loading":true}`)); again.Read != u.Write5m {
		t.Errorf("a deferred tool changed the prefix: %+v after %+v", again, u)
	}
}

// TestAttributionIsOutside: what Claude Code tells of itself in front of the system
// prompt is no part of the prompt at Anthropic. Boxes read it like anything else.
func TestAttributionIsOutside(t *testing.T) {
	body := `{"model":"m","system":[%s{"type":"text","text":"You are an agent."}],"messages":[{"role":"user",` +
		`"content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]}`
	line := `{"type":"text","text":"` + wire.AttributionLine + ` cch=%d;"},`
	s := &script{t: t, sim: NewSimulator(rules(nil))}
	u := s.send(fmt.Sprintf(body, fmt.Sprintf(line, 1)))
	for _, other := range []string{fmt.Sprintf(line, 2), ""} {
		if again := s.send(fmt.Sprintf(body, other)); again.Read != u.Write5m || again.Prompt() != u.Prompt() ||
			u.Write5m == 0 {
			t.Errorf("with %q: %+v after %+v", other, again, u)
		}
	}
	s = &script{t: t, sim: NewSimulator(rules(func(r *Rules) { *r = Lookup("llama_cpp", "m", today) }))}
	u = s.send(fmt.Sprintf(body, fmt.Sprintf(line, 1)))
	if again := s.send(fmt.Sprintf(body, fmt.Sprintf(line, 2))); again.Read != 0 || u.Prompt() == 0 {
		t.Errorf("at a box: %+v after %+v", again, u)
	}
}

func TestServerToolResultsAreMarked(t *testing.T) {
	body := `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"go"%s}]},{"role":"assistant",` +
		`"content":[` +
		`{"type":"server_tool_use","id":"s1","name":"web_search","input":{}},{"type":"web_search_tool_result",` +
		`"tool_use_id":"s1","content":[]},{"type":"text","text":"found"}]},` +
		`{"role":"user","content":"and"}]}`
	s := &script{t: t, sim: NewSimulator(rules(nil))}
	if u := s.send(fmt.Sprintf(body, "")); u.Write5m != 0 {
		t.Errorf("without any marker: %+v", u)
	}
	if u := s.send(fmt.Sprintf(body, mark("1h"))); u.Write1h == 0 || u.Write5m == 0 || u.Uncached == 0 {
		t.Errorf("with one: %+v", u)
	}
}

func TestAutomaticMarker(t *testing.T) {
	s := &script{t: t, sim: NewSimulator(rules(nil))}
	auto := func(n int, marks map[int]string, ttl string) string {
		return strings.TrimSuffix(texts(1, n, marks), "}") + mark(ttl) + "}"
	}
	shares(t, "first", s.send(auto(4, nil, "5m")), 0, 0, 4, 0)
	shares(t, "goes along", s.send(auto(6, nil, "5m")), 4, 0, 2, 0)
	shares(t, "same as the client's", s.send(auto(7, at(7), "5m")), 6, 0, 1, 0)
	// It walks back past what cannot be marked.
	tail := `{"model":"m","messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"thinking",` +
		`"thinking":"hm","signature":"s"}]},{"role":"assistant","content":"so"}]`
	older := &script{t: t, sim: NewSimulator(rules(func(r *Rules) { r.RefusesPrefill = false }))}
	if u := older.send(tail + mark("5m") + "}"); u.Write5m != u.Prompt() {
		t.Errorf("last block: %+v", u)
	}
	if _, err := s.sim.Begin(Call{View: s.view(auto(7, at(7), "1h")), At: start}); err == nil {
		t.Error("two lifetimes on one block were accepted")
	}
	if _, err := s.sim.Begin(Call{View: s.view(auto(9, at(1, 2, 3, 4), "5m")), At: start}); err == nil ||
		!strings.HasSuffix(err.Message, "Found 5.") {
		t.Errorf("a fifth marker: %v", err)
	}
}

func TestAccountsAreBounded(t *testing.T) {
	cfg := rules(nil)
	cfg.MaxAccounts = 3
	s := &script{t: t, sim: NewSimulator(cfg)}
	for i := range 10 {
		s.key = fmt.Sprint(i)
		s.send(texts(1, 3, at(3)))
	}
	if n := len(s.sim.accounts); n != 3 {
		t.Errorf("%d accounts are kept", n)
	}
	if u := s.send(texts(1, 3, at(3))); u.Read == 0 {
		t.Error("the last one is forgotten")
	}
}

func TestExpiredEntriesAreSwept(t *testing.T) {
	s := &script{t: t, sim: NewSimulator(rules(nil))}
	v := s.view(texts(1, 1, nil))
	for i := range 3 * firstSweep {
		run, err := s.sim.Begin(Call{View: v, At: start.Add(time.Duration(i) * time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		run.writes = []write{{hashOf(fmt.Sprint(i)), shortTTL, true}}
		run.FirstByte(start.Add(time.Duration(i) * time.Minute))
	}
	for _, a := range s.sim.accounts {
		if n := len(a.entries); n > firstSweep+1 {
			t.Errorf("%d entries are kept", n)
		}
	}
}
