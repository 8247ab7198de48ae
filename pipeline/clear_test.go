// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

func ordering(edits string) string { return `"context_management":{"edits":[` + edits + `]},` }

const (
	keepAll = `{"type":"clear_thinking_20251015","keep":"all"}`
	clears  = `{"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses","value":10},"keep":{"type":"tool_uses","value":4}}`
)

var box = pricing.Rules{Regime: pricing.KV}

func nobody(wire.Format) bool { return false }

// TestClearingGrows: a conversation is cleared in steps. Cleared blocks stay cleared, and between
// two steps the prompt only grows.
func TestClearingGrows(t *testing.T) {
	for name, rules := range map[string]pricing.Rules{"box": box, "keeping": keeping} {
		s := newScript(t, Options{}, rules)
		s.marker, s.head = "", ordering(clears)
		s.p.Manages = nobody
		s.prompt("Fix the bug.")
		cuts, last := 0, (*Exchange)(nil)
		for i, x := range s.run(0, 41, false) {
			cleared := bytes.Count(x.Prompt.Body, []byte(content.ClearedPlaceholder))
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
				shared, of := prefix(t, last.Prompt.Body, x.Prompt.Body)
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
		if shared, of := prefix(t, last.Prompt.Body, x.Prompt.Body); shared != of || x.Prompt.Applied != nil {
			t.Errorf("%s: without the order %d of %d blocks stay, told %+v", name, shared, of, x.Prompt.Applied)
		}
	}
}

// TestClearingOutlivesTheProcess: the same bytes after a restart.
func TestClearingOutlivesTheProcess(t *testing.T) {
	shelf := new(storetest.Shelf)
	one, other := newProcess(t, box, nil), newProcess(t, box, shelf)
	one.p.Manages, other.p.Manages = nobody, nobody
	s := newScript(t, Options{}, box)
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
		return folded, tools, strings.ReplaceAll(string(x.Prompt.Body), s.marker, "")
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
		for name, o := range map[string]Options{"auto": {}, "eager": {Policy: Eager}, "expand": {Expand: Expand{Mode: stage.On}}} {
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
	if shared, of := prefix(t, before.Prompt.Body, x.Prompt.Body); shared != of || !x.Prompt.Edited {
		t.Errorf("%d of %d blocks stay", shared, of)
	}
}

// After the upstream refuses a cleared history, it gets the client's own, and the client gets no
// report of cleared blocks.
func TestClearingRefused(t *testing.T) {
	s := newScript(t, Options{}, box)
	s.marker, s.head = "", ordering(clears)
	s.p.Manages = nobody
	s.prompt("Fix the bug.")
	s.run(0, 12, false)
	v := parsed(t, s)
	x := s.p.Begin(v, s.s, s.now)
	if x.Prompt.Applied == nil || x.Prompt.Applied.ToolUses == 0 {
		t.Fatalf("told %+v", x.Prompt.Applied)
	}
	x.Rejected()
	if string(x.Prompt.Body) != s.body() || x.Prompt.Applied != nil {
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
	s := newScript(t, Options{Policy: Observe}, box)
	s.marker, s.head = "", ordering(clears)
	s.p.Manages = nobody
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
	s.p.Manages = nobody
	s.prompt("Fix the bug.")
	for i, x := range s.run(0, 20, true) {
		if x.Prompt.Applied.ToolUses > 0 {
			t.Fatalf("request %d: %d cleared in a run of calls", i, x.Prompt.Applied.ToolUses)
		}
	}
	s.final("done")
	s.prompt("And now?")
	x := s.send(wire.Turn{Done: true})
	if x.Prompt.Applied.ToolUses < 10 || bytes.Contains(x.Prompt.Body[bytes.Index(x.Prompt.Body, []byte(content.ClearedPlaceholder)):], []byte(`"thought 1`)) {
		t.Errorf("told %+v: %s", x.Prompt.Applied, x.Prompt.Body)
	}
}
