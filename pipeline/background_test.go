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
)

// idleRules are the rules of a local server.
var idleRules = pricing.Rules{Regime: pricing.KV, KeepsThinking: true, Write: 1}

// reads plays so many turns of an agent that reads one file after the other, and returns the last
// transaction.
func reads(t *testing.T, o Options, turns int) (*script, *Transaction) {
	t.Helper()
	s := newScript(t, o, idleRules)
	s.marker = ""
	s.prompt("Look around.")
	var x *Transaction
	for i := range turns {
		s.turn(i, fmt.Sprintf("/src/f%d.go", i), strings.Repeat(fmt.Sprintf("line of file %d with some words\n", i), 100),
			fmt.Sprintf("Thought %d.", i))
		x = s.send(wire.Turn{Text: "It is done.", Done: true})
		s.now = s.now.Add(10 * time.Second)
	}
	return s, x
}

func TestBackgroundFolds(t *testing.T) {
	s, x := reads(t, Options{}, 30)
	b := x.Background(&wire.Turn{Text: "It is done.", Done: true}, 0)
	if b == nil {
		t.Fatal("nothing is folded")
	}
	body := string(b.Body)
	for text, want := range map[string]int{
		"line of file 1 with": 0, "line of file 29 with": 100, // the agent works on the last file
		`"thinking":"Thought 1."`: 0, `"thinking":"Thought 29."`: 1,
		`{"file_path":"/src/f1.go"}`: 1, "Look around.": 1,
	} {
		if n := strings.Count(body, text); n != want {
			t.Errorf("the box reads %q %d times, want %d", text, n, want)
		}
	}
	if n := strings.Count(body, "Let me read it."); n != 1 {
		t.Errorf("%d announcements of calls are left, want that of the last answer", n)
	}
	if b.Removed <= 0 || b.Process <= 0 || b.Blocks < 30 {
		t.Errorf("%d blocks, %d tokens removed, %d to read", b.Blocks, b.Removed, b.Process)
	}
	if !b.Current() || !b.Commit(wire.Usage{Uncached: 1000, Reported: true}) {
		t.Fatal("the fold does not hold")
	}
	// The next request begins with the prompt that the server has read.
	s.final("It is done.")
	s.prompt("And now?")
	next := s.send(wire.Turn{Text: "Nothing.", Done: true})
	read, sent := strings.Index(body, `"system"`), strings.Index(string(next.Prompt.Body.Bytes()), `"system"`)
	if begins := strings.TrimSuffix(body[:read], "],"); !strings.HasPrefix(string(next.Prompt.Body.Bytes()[:sent]), begins) {
		t.Errorf("%s\ndoes not begin with\n%s", next.Prompt.Body.Bytes(), begins)
	}
	if b.Commit(wire.Usage{}) {
		t.Error("a fold holds after the conversation has gone on")
	}
}

// A fold is as deep as the time limit allows, and respects the options.
func TestBackgroundBounds(t *testing.T) {
	answer := &wire.Turn{Text: "It is done.", Done: true}
	_, x := reads(t, Options{}, 30)
	all, some := x.Background(answer, 0), (*Background)(nil)
	if all != nil {
		some = x.Background(answer, all.Process-1000)
	}
	if all == nil || some == nil || some.Process >= all.Process || some.Blocks >= all.Blocks {
		t.Fatalf("%t %t: not a smaller fold for the smaller bound", all != nil, some != nil)
	}
	_, x = reads(t, Options{
		StripThinking:  StripThinking{Mode: stage.Off},
		StripNarration: StripNarration{Mode: stage.Off},
	}, 30)
	b := x.Background(answer, 0)
	if b == nil {
		t.Fatal("nothing is folded")
	}
	if n := strings.Count(string(b.Body), "Let me read it."); n != 30 {
		t.Errorf("%d of 30 announcements are left", n)
	}
	if n := strings.Count(string(b.Body), `"thinking":"Thought`); n != 30 {
		t.Errorf("%d of 30 thoughts are left", n)
	}
	for _, o := range []Options{{Policy: Observe}, {Policy: Eager}} {
		if _, x := reads(t, o, 30); x.Background(answer, 0) != nil {
			t.Errorf("%s folds in pauses", o.Policy)
		}
	}
}
