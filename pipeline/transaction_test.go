// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// ask sends the added messages, with a part of the body replaced, and commits the request with a
// usage.
func (s *script) ask(from, to string, u wire.Usage) *Transaction {
	s.t.Helper()
	body := s.body()
	if !strings.Contains(body, from) {
		s.t.Fatalf("%q is not in the request", from)
	}
	v, err := wire.Parse(s.format, []byte(strings.Replace(body, from, to, 1)), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	x := s.p.Begin(v, s.s, s.now)
	x.Commit(&wire.Turn{Text: "unrelated words", Done: true, Usage: u}, s.now)
	s.now = s.now.Add(10 * time.Second)
	return x
}

// warmUsage and coldUsage are the usages of a cached and of an uncached prompt.
var warmUsage, coldUsage = wire.Usage{Read: 9000, Write5m: 1000, Reported: true},
	wire.Usage{Write5m: 10000, Reported: true}

// A request that reads less from the cache than expected names the reason.
func TestCacheBreaks(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to string
		pause    time.Duration
		usage    wire.Usage
		want     Break
	}{
		{"warm", "m", "m", 0, warmUsage, NoBreak},
		{"no usage", "m", "m", 0, wire.Usage{}, NoBreak},
		{"expired", "m", "m", time.Hour, coldUsage, BreakExpired},
		{"another model", `"model":"m"`, `"model":"n"`, 0, coldUsage, BreakModel},
		{"other tools", `"name":"Read"}]}`, `"name":"Read"},{"name":"Write"}]}`, 0, coldUsage, BreakTools},
		{"another system prompt", "You are helpful.", "You are brief.", 0, coldUsage, BreakSystem},
		{"history written anew", "f1 line 3 ", "f1 line three ", 0, coldUsage, BreakMessages},
		{"changed, and found all the same", "f1 line 3 ", "f1 line three ", 0, warmUsage, NoBreak},
		{"nothing to be seen", "m", "m", 0, coldUsage, BreakUnknown},
	} {
		s := newScript(t, Options{Policy: Observe}, keeping)
		s.prompt("Fix the bug.")
		s.run(0, 5, false)
		s.ask("m", "m", warmUsage)
		s.turn(5, "/src/file5.go", long("f5"))
		s.now = s.now.Add(c.pause)
		x := s.ask(c.from, c.to, c.usage)
		if x.Lesson.Break != c.want {
			t.Errorf("%s: %q instead of %q", c.name, x.Lesson.Break, c.want)
		}
		cost := 0.0
		if c.want != NoBreak { // the prompt was written for the price of reading it
			cost = 10000 * (x.req.rules.Write - x.req.rules.Read)
		}
		if got := float64(x.Lesson.BreakCost); math.Abs(got-cost) > 0.01 {
			t.Errorf("%s: got a cost of %v, want %v", c.name, got, cost)
		}
		var noted int
		for _, l := range s.s.Report(s.now).Conversations {
			noted += l.Breaks[string(c.want)]
		}
		if got := noted == 1; got != (c.want != NoBreak) {
			t.Errorf("%s: the report counts %d", c.name, noted)
		}
	}
}

// An own edit of a sent block counts as the reason, and a fold dearer than planned makes the
// planner careful.
func TestBreakByEdit(t *testing.T) {
	s := newScript(t, Options{Policy: Eager}, keeping)
	s.prompt("Fix the bug.")
	s.run(0, 9, false)
	s.ask("m", "m", warmUsage)
	s.turn(9, "/src/file9.go", long("f9"))
	if x := s.ask("m", "m", coldUsage); x.Lesson.Break != BreakEdit {
		t.Errorf("%q, %v", x.Lesson.Break, x.Prompt.Fired)
	}
}

// A fold dearer than planned makes the planner careful in its conversation; a fold that costs as
// planned reverts that.
func TestCautionFollowsUsage(t *testing.T) {
	s := newScript(t, Options{}, keeping)
	s.prompt("Fix the bug.")
	s.run(0, 3, false)
	x := s.ask("m", "m", warmUsage)
	l := conversationOf(t, s)
	x.Decision.Folded, x.Decision.Rewritten = 1, 4000
	x.learnCost(l, wire.Usage{Read: 2000, Write5m: 16000, Reported: true})
	careful := l.Caution
	if careful <= 1 || careful > maxCaution {
		t.Fatalf("caution %v", careful)
	}
	l.Requests = 100
	if r := furtherRequests(s.s, x.req.View, l); r >= 100 {
		t.Errorf("R is %v in spite of it", r)
	}
	for range 5 {
		x.learnCost(l, wire.Usage{Read: 14000, Write5m: 2000, Reported: true})
	}
	if l.Caution != 1 {
		t.Errorf("caution stays %v", l.Caution)
	}
}

// TestFurtherFollowsTheTenant: the expected length of a conversation follows others of its kind,
// once there are enough of them.
func TestFurtherFollowsTheTenant(t *testing.T) {
	s := newScript(t, Options{}, keeping)
	s.prompt("Fix the bug.")
	s.run(0, 12, false)
	x := s.ask("m", "m", warmUsage)
	l := conversationOf(t, s)
	l.Requests = 12
	alone := furtherRequests(s.s, x.req.View, l)
	for range 20 {
		other := &sessioncache.Conversation{Kind: l.Kind}
		for range 14 {
			s.s.CountRequest(other)
		}
	}
	if r := furtherRequests(s.s, x.req.View, l); r >= alone/2 {
		t.Errorf("twenty conversations have ended at 14 requests, and %v more than 12 are expected; %v without them", r,
			alone)
	}
}

// reply sends the added messages and commits the request with a response.
func (s *script) reply(t wire.Turn) *Transaction {
	s.t.Helper()
	v, err := wire.Parse(s.format, []byte(s.body()), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	x := s.p.Begin(v, s.s, s.now)
	t.Text, t.Done = "unrelated words", true
	x.Commit(&t, s.now)
	s.now = s.now.Add(10 * time.Second)
	return x
}

// TestServerEdits: a cut of the history by the provider explains a miss after it, once.
func TestServerEdits(t *testing.T) {
	eight, nine := wire.Cleared{ToolUses: 8, Tokens: 50000}, wire.Cleared{ToolUses: 9, Tokens: 56000}
	for _, c := range []struct {
		name   string
		policy Policy
		before wire.Cleared
		pause  time.Duration
		answer wire.Turn
		want   Break
	}{
		{name: "cut for the first time", answer: wire.Turn{Usage: coldUsage, Cleared: eight}, want: BreakServerEdit},
		{name: "cut further", before: eight, answer: wire.Turn{Usage: coldUsage, Cleared: nine}, want: BreakServerEdit},
		{name: "cut as before", before: eight, answer: wire.Turn{Usage: coldUsage, Cleared: eight}, want: BreakUnknown},
		{name: "no longer cut", before: eight, answer: wire.Turn{Usage: coldUsage}, want: BreakUnknown},
		{name: "cut behind what is read", answer: wire.Turn{Usage: warmUsage, Cleared: eight}, want: NoBreak},
		{
			name: "cut when all is cold", pause: time.Hour, answer: wire.Turn{Usage: coldUsage, Cleared: eight},
			want: BreakExpired,
		},
		{name: "summed up", answer: wire.Turn{Usage: coldUsage, Compacted: true}, want: BreakServerEdit},
		{
			name: "cut, and folded by us", policy: Eager, answer: wire.Turn{Usage: coldUsage, Cleared: eight},
			want: BreakServerEdit,
		},
		{name: "folded by us", policy: Eager, answer: wire.Turn{Usage: coldUsage}, want: BreakEdit},
	} {
		if c.policy == "" {
			c.policy = Observe
		}
		s := newScript(t, Options{Policy: c.policy}, keeping)
		s.prompt("Fix the bug.")
		s.run(0, 9, false)
		s.reply(wire.Turn{Usage: warmUsage, Cleared: c.before})
		s.turn(9, "/src/file9.go", long("f9"))
		s.now = s.now.Add(c.pause)
		x := s.reply(c.answer)
		if x.Lesson.Break != c.want {
			t.Errorf("%s: %q instead of %q", c.name, x.Lesson.Break, c.want)
		}
		if l := conversationOf(t, s); l.Cleared != c.answer.Cleared || l.Breaks[string(c.want)] != min(len(c.want), 1) {
			t.Errorf("%s: the conversation has %+v, %v", c.name, l.Cleared, l.Breaks)
		}
		if c.want == BreakServerEdit {
			s.turn(10, "/src/file10.go", long("f10"))
			if x := s.reply(wire.Turn{
				Usage:   wire.Usage{Read: 10000, Write5m: 800, Reported: true},
				Cleared: c.answer.Cleared,
			}); x.Lesson.Break != NoBreak {
				t.Errorf("%s: the request after it: %q", c.name, x.Lesson.Break)
			}
		}
	}
}

// TestServerEditIsNobodysFault: a miss after a cut by the provider is on both sides of the bill,
// and teaches the planner nothing about its folds.
func TestServerEditIsNobodysFault(t *testing.T) {
	for _, cleared := range []wire.Cleared{{}, {ToolUses: 8, Tokens: 50000}} {
		s := newScript(t, Options{Policy: Eager}, keeping)
		s.prompt("Fix the bug.")
		s.run(0, 9, false)
		s.reply(wire.Turn{Usage: warmUsage})
		l := conversationOf(t, s)
		s.turn(9, "/src/file9.go", long("f9"))
		answer := wire.Turn{Usage: coldUsage, Cleared: cleared}
		v, err := wire.Parse(s.format, []byte(s.body()), nil)
		if err != nil {
			t.Fatal(err)
		}
		x := s.p.Begin(v, s.s, s.now)
		x.Decision.Folded, x.Decision.Rewritten = 1, 100
		b := x.Bill(&answer)
		x.Commit(&answer, s.now)
		if rejected := cleared == (wire.Cleared{}); (b.Cost != b.ClientCost) != rejected || (l.Caution > 1) != rejected ||
			!x.Prompt.Edited {
			t.Errorf("%+v: cost %v, the client's own %v, caution %v", cleared, b.Cost, b.ClientCost, l.Caution)
		}
	}
}

// TestCompactionByServer: all calls of the model are billed, and the conversation continues from
// the prompt of the last one.
func TestCompactionByServer(t *testing.T) {
	sum := wire.Usage{Uncached: 20000, Read: 160000, Write5m: 23000, Output: 4500, Reported: true}
	final := wire.Usage{Write5m: 23000, Output: 1000, Reported: true}
	s := newScript(t, Options{Policy: Eager}, keeping)
	s.prompt("Fix the bug.")
	s.run(0, 9, false)
	s.reply(wire.Turn{Usage: wire.Usage{Read: 150000, Write5m: 10000, Reported: true}})
	answer := wire.Turn{Usage: sum, Final: final, Compacted: true}
	x := s.reply(answer)
	l := conversationOf(t, s)
	if b := x.Bill(&answer); x.Lesson.Break != NoBreak || b.Actual != sum || b.Cost != b.ClientCost || l.Last != final ||
		l.Total.Output != sum.Output {
		t.Errorf("break %q, %+v, last %+v", x.Lesson.Break, b, l.Last)
	}
	if _, ok := x.Idle(&answer); ok {
		t.Error("a ping would have the conversation summed up once more")
	}
	s.turn(9, "/src/file9.go", long("f9"))
	next := wire.Turn{Usage: wire.Usage{Read: 22000, Write5m: 3000, Reported: true}}
	if x := s.reply(next); x.Lesson.Break != NoBreak {
		t.Errorf("the request after it: %q", x.Lesson.Break)
	} else if _, ok := x.Idle(&next); !ok {
		t.Error("the conversation is kept alive no more")
	}
}

// TestClearedIsNotFolded: a fold of a block that the provider clears gains nothing.
func TestClearedIsNotFolded(t *testing.T) {
	folds := func(cleared wire.Cleared) (folded []int) {
		s := newScript(t, Options{}, keeping)
		s.prompt("Fix the bug.")
		for i := range 20 {
			s.turn(i, fmt.Sprintf("/src/file%d.go", i), long(fmt.Sprint("f", i)))
		}
		s.reply(wire.Turn{Usage: wire.Usage{Write5m: 40000, Reported: true}, Cleared: cleared})
		s.turn(20, "/src/file20.go", long("f20"))
		s.now = s.now.Add(time.Hour) // cold, so folds are free
		x := s.reply(wire.Turn{Usage: wire.Usage{Write5m: 20000, Reported: true}, Cleared: cleared})
		result := 0
		for i := range x.req.Blocks {
			if x.req.Blocks[i].Kind == wire.KindToolResult {
				if x.req.States[i].Edit != nil {
					folded = append(folded, result)
				}
				result++
			}
		}
		return folded
	}
	all, rest := folds(wire.Cleared{}), folds(wire.Cleared{ToolUses: 8, Tokens: 5000})
	if len(all) == 0 || all[0] >= 8 || len(rest) == 0 || rest[0] < 8 {
		t.Errorf("folded: %v, and %v where the first eight are left out", all, rest)
	}
}

// OpenAI's newer models have no entry before the messages. A fold that counts on one writes the whole prompt again.
func TestNoFront(t *testing.T) {
	m, err := sessioncache.New(sessioncache.Options{MaxBytes: 1 << 24})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for regime, want := range map[pricing.Regime]bool{pricing.Breakpoints: true, pricing.Markers: false} {
		p := New(Options{Policy: CostAware}, func(string, time.Time) pricing.Rules {
			return pricing.Rules{Regime: regime, Markers: 4, Write: 1.25, Read: 0.1, TTL: 30 * time.Minute, MinTokens: 1024}
		})
		v, err := wire.Parse(wire.OpenAIChat, []byte(`{"model":"m","messages":[{"role":"user","content":"go on"}]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(0, 0)
		x := p.Begin(v, m.Acquire(t.Context(), sessioncache.Key{ID: fmt.Sprint(regime)}), at)
		x.Commit(&wire.Turn{Done: true, Usage: wire.Usage{Write5m: 4000, Reported: true}}, at)
		if got := hasLapsed(x.conversation, 30*time.Minute, at); got != want {
			t.Errorf("%v: no entry before the messages: %t, want %t", regime, got, want)
		}
		x.Close()
	}
}

// Reading a long prefix does not refresh a shorter one: the expired entries before the messages and at the added
// marker are written again.
func TestFrontLapses(t *testing.T) {
	m, err := sessioncache.New(sessioncache.Options{MaxBytes: 1 << 24})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	session := m.Acquire(t.Context(), sessioncache.Key{ID: "a"})
	p := New(Options{Policy: CostAware}, func(string, time.Time) pricing.Rules {
		return pricing.Rules{
			Regime: pricing.Markers, Markers: 4, LookBack: 20, Write: 1.25, Read: 0.1, TTL: 5 * time.Minute,
			MinTokens: 1024,
		}
	})
	messages := []string{`{"role":"user","content":"go on"}`}
	for i, c := range []struct{ at, marked int }{{0, 0}, {3, 0}, {4, 0}, {7, 7}, {9, 7}} {
		messages = append(messages,
			fmt.Sprintf(`{"role":"assistant","content":"done with %d"},{"role":"user","content":"go on with %d"}`, i, i))
		v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","tools":[{"name":"bash"}],"messages":[`+
			strings.Join(messages, ",")+`]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(0, 0).Add(time.Duration(c.at) * time.Minute)
		x := p.Begin(v, session, at)
		x.req.change.stake, x.Prompt.Markers = 2, 1
		if got, want := x.WritesEntry(), c.at == 7; got != want {
			t.Errorf("at %d min: writes an entry at the added marker: %t, want %t", c.at, got, want)
		}
		before := hasLapsed(x.req.match.Conversation, 5*time.Minute, at)
		x.Commit(&wire.Turn{Done: true, Usage: wire.Usage{Read: 4000, Write5m: 100, Reported: true}}, at)
		if got, known := x.conversation.Ends.Marked(0); !known ||
			got.Sub(time.Unix(0, 0)) != time.Duration(c.marked)*time.Minute || before != (c.at == 7) {
			t.Errorf("at %d min: marked at %v, lapsed %t", c.at, got.Sub(time.Unix(0, 0)), before)
		}
		if got, _ := x.conversation.Ends.Marked(2); got.Sub(time.Unix(0, 0)) != time.Duration(c.marked)*time.Minute {
			t.Errorf("at %d min: the added marker's entry is of %v, want %d min", c.at, got.Sub(time.Unix(0, 0)), c.marked)
		}
		x.Close()
	}
}

// The stakes of a conversation are at its own prices: the long lifetime's, if it has that.
func TestStakesOfTheLongLifetime(t *testing.T) {
	for _, c := range []struct {
		ttl   time.Duration
		write float64
	}{{keeping.TTL, keeping.Write}, {keeping.LongTTL, keeping.Write1h}} {
		s := newScript(t, Options{}, keeping)
		s.prompt("Fix the bug.")
		s.send(wire.Turn{Done: true, Usage: wire.Usage{Write5m: 4000, Reported: true}})
		l := conversationOf(t, s)
		l.TTL = c.ttl
		s.turn(0, "/src/a.go", "short")
		v, err := wire.Parse(s.format, []byte(s.body()), nil)
		if err != nil {
			t.Fatal(err)
		}
		x := s.p.Begin(v, s.s, s.now)
		x.Decision.Folded, x.Decision.Rewritten = 1, 1000
		before := l.Staked + float64(x.Prompt.SentTokens-x.Prompt.OriginalTokens)*keeping.Read
		x.Commit(&wire.Turn{Done: true, Usage: wire.Usage{Read: 4000, Write5m: 100, Reported: true}}, s.now)
		if got, want := conversationOf(t, s).Staked-before, 1000*(c.write-keeping.Read); math.Abs(got-want) > 1e-6 {
			t.Errorf("lifetime %v: %g are staked, want %g", c.ttl, got, want)
		}
	}
}
