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
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
)

// A conversation folded between two tasks gains, and the decision says so. In the first requests
// nothing is at stake yet.
func TestFoldsBetweenTasks(t *testing.T) {
	s := newScript(t, Options{}, keeping)
	s.prompt("Fix the bug.")
	n := 0
	usage := func(x int) wire.Turn {
		return wire.Turn{Text: "unrelated", Done: true, Usage: wire.Usage{
			Read: int64(1000 * x), Write5m: 1000,
			Reported: true,
		}}
	}
	for task := range 10 {
		for range 12 {
			n++
			if x := s.send(usage(n)); x.Decision.Epoch == planner.Cold {
				t.Fatalf("cold: %+v", x.Decision)
			}
			s.turn(n, fmt.Sprintf("/src/file%d.go", n), long(fmt.Sprint("f", n)))
		}
		n++
		s.send(usage(n))
		s.final("Done.")
		s.prompt(fmt.Sprint("Next: ", task))
	}
	x := s.send(usage(n))
	if count(x, stage.Prune) == 0 {
		t.Fatalf("nothing was folded in %d requests: %s", n, x.Decision.String())
	}
	if d := x.Decision.String(); !strings.HasPrefix(d, "epoch=") || !strings.Contains(d, "gain=") {
		t.Errorf("decision: %s", d)
	}
}

// The part before a fold is cached only from the provider's minimum on; a shorter one is written
// again as well.
func TestFoldsBehindAShortFront(t *testing.T) {
	first := func(least int) (request int, d planner.Decision) {
		rules := keeping
		rules.Regime, rules.Write, rules.MinTokens = pricing.Automatic, 1, least
		s := newScript(t, Options{}, rules)
		s.prompt("Fix the bug.")
		for n := 1; n < 200; n++ {
			usage := wire.Usage{Read: int64(1000 * n), Uncached: 1000, Reported: true}
			if x := s.send(wire.Turn{Text: "unrelated", Done: true, Usage: usage}); x.Decision.Folded > 0 {
				return n, x.Decision
			}
			s.result(n, "Bash", fmt.Sprintf(`{"command":"make f%d"}`, n),
				string(content.Quote(strings.Repeat(fmt.Sprintf("word%d ", n), 300))))
		}
		t.Fatal("nothing is folded")
		return 0, planner.Decision{}
	}
	found, a := first(0)
	written, b := first(2000)
	if written < found || written == found && b.Rewritten <= a.Rewritten {
		t.Errorf("%d: %+v; with a minimum %d: %+v", found, a, written, b)
	}
}

// If bound thinking has seen edits, the request after a refusal contains those edits alone: the
// original would be refused as well.
func TestRefusalWhereThinkingIsBound(t *testing.T) {
	s := newScript(t, Options{Policy: Eager}, binding)
	s.prompt("Fix the bug.")
	s.run(0, 12, true)
	s.final("Done.")
	s.prompt("Now the tests.")
	first := s.send(wire.Turn{Done: true})
	if !first.Prompt.Edited {
		t.Fatal("nothing was edited")
	}
	for i := range 8 {
		s.turn(100+i, fmt.Sprintf("/test/file%d.go", i), long(fmt.Sprint("t", i)), "a thought")
		s.send(wire.Turn{Done: true})
	}
	s.final("Done.")
	s.prompt("And the docs.")
	v, err := wire.Parse(wire.Anthropic, []byte(s.body()), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := s.p.Begin(v, s.s, s.now)
	fresh := string(x.Prompt.Body.Bytes())
	x.Rejected()
	if !x.Prompt.Edited || string(x.Prompt.Body.Bytes()) == fresh || string(x.Prompt.Body.Bytes()) == s.body() {
		t.Error("neither the edits that were seen, nor without the new ones")
	}
	if shared, of := prefix(t, first.Prompt.Body.Bytes(), x.Prompt.Body.Bytes()); shared != of {
		t.Errorf("only %d of %d blocks are as they were seen", shared, of)
	}
	x.Accepted(0)
	x.Commit(&wire.Turn{Done: true}, s.now.Add(time.Second))
	s.turn(200, "/docs/a.md", long("d"), "another thought")
	if y := s.send(wire.Turn{Done: true}); !y.Prompt.Edited || y.Prompt.Markers != 0 {
		t.Error("the edits that were seen are not repeated, or there are new ones")
	}
}
