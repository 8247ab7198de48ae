// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// ask sends the added messages, with a part of the body replaced, and commits the request with a
// usage.
func (s *script) ask(from, to string, u wire.Usage) *Exchange {
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
var warmUsage, coldUsage = wire.Usage{Read: 9000, Write5m: 1000, Reported: true}, wire.Usage{Write5m: 10000, Reported: true}

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
		var noted int
		for _, l := range s.s.Report(s.now).Lineages {
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
	l := lineageOf(t, s)
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
	l := lineageOf(t, s)
	l.Requests = 12
	alone := furtherRequests(s.s, x.req.View, l)
	for range 20 {
		other := &sessioncache.Lineage{Kind: l.Kind}
		for range 14 {
			s.s.CountRequest(other)
		}
	}
	if r := furtherRequests(s.s, x.req.View, l); r >= alone/2 {
		t.Errorf("twenty conversations have ended at 14 requests, and %v more than 12 are expected; %v without them", r, alone)
	}
}
