// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// billed sends the script's next request and answers it with a usage.
func (s *script) billed(u wire.Usage) (*Exchange, Bill) {
	u.Reported = true
	answer := wire.Turn{Text: "unrelated words", Usage: u, Done: true}
	x := s.send(answer)
	return x, x.Bill(&answer)
}

// Both sides of the bill are equal as long as only the client's own bytes are sent.
func TestBillOfOwnBytes(t *testing.T) {
	s := newScript(t, Options{Policy: Observe}, keeping)
	s.prompt("Fix the build.")
	for i := range 4 {
		s.turn(i, "/src/a.go", long(fmt.Sprint("f", i)))
		u := wire.Usage{Uncached: 10, Write5m: int64(100 * i), Read: 5000, Output: 50}
		_, b := s.billed(u)
		u.Reported = true
		if b.Actual != u || b.Client != u || b.Cost != b.ClientCost || b.Cost == 0 {
			t.Errorf("turn %d: %+v", i, b)
		}
	}
}

// After an edit, the client's side follows the client's own requests: it reads the previous prompt
// and writes the rest, or writes all of it after expiry.
func TestBillOfEditedTurns(t *testing.T) {
	s := newScript(t, Options{Policy: Eager, Zones: Zones{MinMessages: new(int)}}, keeping)
	s.prompt("Fix the build.")
	var before Bill
	edited := 0
	for i := range 14 {
		s.turn(i, fmt.Sprintf("/src/file%d.go", i), long(fmt.Sprint("f", i)))
		if i == 12 {
			s.now = s.now.Add(10 * time.Minute)
		}
		x, b := s.billed(wire.Usage{Write5m: int64(2000 + 100*i), Read: 100, Output: 50})
		if !x.Prompt.Edited {
			before = b
			continue
		}
		edited++
		own := b.Client.Prompt()
		if own < b.Actual.Prompt() {
			t.Errorf("turn %d: the client's own prompt of %d is shorter than what was sent, %d", i, own, b.Actual.Prompt())
		}
		switch {
		case i == 12:
			if b.Client.Read != 0 || b.Client.Write5m != own {
				t.Errorf("turn %d, cold: %+v", i, b.Client)
			}
		case b.Client.Read != before.Client.Prompt() && edited > 1:
			t.Errorf("turn %d: %d are read, the prompt before had %d", i, b.Client.Read, before.Client.Prompt())
		}
		before = b
	}
	if edited < 5 {
		t.Errorf("only %d turns were edited", edited)
	}
}

// In caches without markers, a pause longer than the lifetime also ends the entries of the client's
// own bytes.
func TestBillOfEditedTurnsWithoutMarkers(t *testing.T) {
	rules := pricing.Rules{Regime: pricing.Automatic, Write: 1, Read: 0.1, TTL: 5 * time.Minute, MinTokens: 1024}
	s := newScript(t, Options{Policy: Eager, Zones: Zones{MinMessages: new(int)}}, rules)
	s.prompt("Fix the build.")
	for i := range 12 {
		s.turn(i, fmt.Sprintf("/src/file%d.go", i), long(fmt.Sprint("f", i)))
		cold := i == 10
		if cold {
			s.now = s.now.Add(10 * time.Minute)
		}
		x, b := s.billed(wire.Usage{Uncached: int64(2000 + 300*i), Output: 50})
		if x.Prompt.Edited && i > 8 && (b.Client.Read == 0) != cold {
			t.Errorf("turn %d: %+v", i, b.Client)
		}
	}
}

// An interrupted response is on the bill, and changes nothing else.
func TestBillOfInterruptedTurn(t *testing.T) {
	s := newScript(t, Options{}, keeping)
	s.prompt("Fix the build.")
	x := s.send(wire.Turn{})
	b := x.Bill(&wire.Turn{Usage: wire.Usage{Write5m: 1000, Reported: true}})
	if b.Cost != 1250 || b.ClientCost != 1250 {
		t.Errorf("%+v", b)
	}
	if b := x.Bill(nil); b.Cost != 1250 {
		t.Error("the bill has changed")
	}
}

// BenchmarkBill measures the bill of one turn, with a history of so many blocks.
func BenchmarkBill(b *testing.B) {
	for _, turns := range []int{10, 100, 500} {
		s := newScript(b, Options{}, keeping)
		s.prompt("Fix the build.")
		for i := range turns {
			s.turn(i, fmt.Sprintf("/src/file%d.go", i), long(fmt.Sprint("f", i)))
		}
		v, err := wire.Parse(s.format, []byte(s.body()), nil)
		if err != nil {
			b.Fatal(err)
		}
		x := s.p.Begin(v, s.s, s.now)
		u := wire.Usage{Read: 1000, Write5m: 500, Reported: true}
		b.Run(fmt.Sprint(len(v.Blocks), " blocks"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x.account = account{} // else the bill is not computed again
				x.settleBill(&wire.Turn{Usage: u, Done: true})
			}
		})
	}
}

// After pings, the client's side is the bill without pings: the client would have written
// everything again after the pause.
func TestBillAfterPing(t *testing.T) {
	s := newScript(t, Options{Policy: Observe}, keeping)
	s.prompt("Fix the build.")
	s.turn(0, "/src/a.go", long("a"))
	s.billed(wire.Usage{Write5m: 4000, Output: 5})
	s.now = s.now.Add(8 * time.Minute)
	v, err := wire.Parse(s.format, []byte(s.body()), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.s.Lock()
	s.s.Match(v).Conversation.Warmed = s.now.Add(-4 * time.Minute)
	s.s.Unlock()
	s.turn(1, "/src/b.go", long("b"))
	_, b := s.billed(wire.Usage{Read: 4000, Write5m: 1000, Output: 5})
	if b.Client.Read != 0 || b.Client.Write5m != 5000 || b.ClientCost <= b.Cost {
		t.Errorf("%+v", b)
	}
}

// TestBillWithoutUsage: a response without complete usage is charged by the sent prompt and the
// received output.
func TestBillWithoutUsage(t *testing.T) {
	const text = 4000 // bytes of the response, at 0.27 tokens each
	said := strings.Repeat("word ", text/5)
	tests := []struct {
		name   string
		turn   wire.Turn
		output int64 // -1: as reported
		want   string
	}{
		{"a whole answer without usage", wire.Turn{Done: true, Text: said}, 1080, "estimated"},
		{"an answer that was cut before its usage", wire.Turn{Text: said}, 1080, "estimated"},
		{
			"a cut answer that told its beginning",
			wire.Turn{Text: said, Usage: wire.Usage{Write5m: 700, Output: 1, Reported: true}},
			1080, "in part",
		},
		{
			"a cut answer that told more than came",
			wire.Turn{Text: said, Usage: wire.Usage{Write5m: 700, Output: 5000, Reported: true}},
			5000, "reported",
		},
		{"a call that was cut", wire.Turn{Calls: []wire.Call{{Name: "Write", Arguments: said}}}, 1121, "estimated"},
		{"thinking that was cut", wire.Turn{Thinking: said}, 1080, "estimated"},
		{
			"a usage without the answer's length",
			wire.Turn{Done: true, Text: said, Usage: wire.Usage{Write5m: 700, Reported: true}},
			1080, "in part",
		},
		{
			"a usage of the answer alone",
			wire.Turn{Done: true, Text: said, Usage: wire.Usage{Output: 900, Reported: true}},
			900, "prompt",
		},
		{"nothing but the header", wire.Turn{}, 0, "estimated"},
		{"an error in place of an answer", wire.Turn{ErrorType: "overloaded_error"}, 0, "nothing"},
		{"an error amid the answer", wire.Turn{ErrorType: "overloaded_error", Text: said}, 1080, "estimated"},
		{"a usage as it should be", wire.Turn{
			Done: true, Text: said,
			Usage: wire.Usage{Write5m: 700, Output: 3, Reported: true},
		}, 3, "reported"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t, Options{Policy: Observe}, keeping)
			s.prompt(long("a question"))
			x := s.send(tt.turn)
			b := x.Bill(&tt.turn)
			if got, want := b.Estimated, tt.want == "estimated" || tt.want == "in part" || tt.want == "prompt"; got != want {
				t.Errorf("got estimated %t, want %t", got, want)
			}
			prompt := int64(x.Prompt.OriginalTokens)
			switch tt.want {
			case "nothing":
				prompt = 0
			case "in part", "reported":
				prompt = 700
			}
			if prompt == 0 != (tt.want == "nothing") {
				t.Fatal("the prompt has no length")
			}
			if want := (wire.Usage{Write5m: prompt, Output: tt.output, Reported: tt.turn.Usage.Reported}); b.Actual != want {
				t.Errorf("got %+v, want %+v", b.Actual, want)
			}
			if want := 1.25*float64(prompt) + keeping.CostOutput(wire.Usage{Output: tt.output}); b.Cost != want ||
				b.ClientCost != want {
				t.Errorf("got cost %v, client's %v, want %v", b.Cost, b.ClientCost, want)
			}
		})
	}
}

// TestExpectedUsage: the cache entry of the last response counts as read if the prompt continues
// it. The rest counts by the provider's price.
func TestExpectedUsage(t *testing.T) {
	automatic := pricing.Rules{Regime: pricing.Automatic, Write: 1, Read: 0.1, TTL: keeping.TTL, MinTokens: 1024}
	breakpoints := automatic
	breakpoints.Regime, breakpoints.Write = pricing.Breakpoints, 1.25
	tests := []struct {
		name  string
		rules pricing.Rules
		pause bool
		first wire.Usage
		want  func(prompt int64) wire.Usage
	}{
		{
			"markers", keeping, false,
			wire.Usage{Write5m: 3000},
			func(p int64) wire.Usage { return wire.Usage{Read: 3000, Write5m: p - 3000} },
		},
		{"expired", keeping, true, wire.Usage{Write5m: 3000}, func(p int64) wire.Usage { return wire.Usage{Write5m: p} }},
		{
			"automatic", automatic, false,
			wire.Usage{Uncached: 3000},
			func(p int64) wire.Usage { return wire.Usage{Read: 3000, Uncached: p - 3000} },
		},
		{
			"breakpoints", breakpoints, false,
			wire.Usage{Write5m: 3000},
			func(p int64) wire.Usage { return wire.Usage{Read: 3000, Write5m: p - 3000} },
		},
		{
			"too short to be cached", automatic, false,
			wire.Usage{Uncached: 300},
			func(p int64) wire.Usage { return wire.Usage{Uncached: p} },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t, Options{Policy: Observe}, tt.rules)
			s.prompt(strings.Repeat(long("a question"), 4))
			tt.first.Reported = true
			s.send(wire.Turn{Done: true, Text: "a", Usage: tt.first})
			s.turn(0, "/src/a.go", strings.Repeat(long("f"), 4))
			if tt.pause {
				s.now = s.now.Add(3 * tt.rules.TTL)
			}
			cut := wire.Turn{}
			x := s.send(cut)
			got, want := x.Bill(&cut).Actual, tt.want(int64(x.Prompt.OriginalTokens))
			if got != want || got.Prompt() < 1000 {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
