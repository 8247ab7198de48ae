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

func TestBreakpoints(t *testing.T) {
	for _, c := range []struct {
		name    string
		marker  string
		mode    stage.Mode
		turns   int
		markers int
	}{
		{"client marks", `,"cache_control":{"type":"ephemeral"}`, "", 3, 0},
		{"client marks nothing, first request of an agent", "", "", 0, 2},
		{"client marks nothing, first request, on", "", stage.On, 0, 2},
		{"client marks nothing", "", "", 2, 2},
		{"off", "", stage.Off, 2, 0},
	} {
		long := long("the task in many words")
		s := newScript(t, Options{Breakpoints: Breakpoints{Mode: c.mode}}, keeping)
		s.marker = c.marker
		s.prompt("Fix the bug. " + long)
		s.run(0, c.turns, false)
		if x := s.send(wire.Turn{Done: true}); x.Prompt.Markers != c.markers {
			t.Errorf("%s: %d markers, want %d", c.name, x.Prompt.Markers, c.markers)
		}
	}
}

// TestFirstTurn: an agent without markers pays once for tools, system prompt and task, by the
// provider's rules. A client with a single request pays for no write.
func TestFirstTurn(t *testing.T) {
	const task = `{"role":"user","content":"Fix the build."}`
	requests := []string{task, task + `,{"role":"assistant","content":"Done."},{"role":"user","content":"Now the tests."}`}
	for tool, agent := range map[string]bool{"Read": true, "forecast": false} {
		rules := pricing.Lookup("anthropic", "claude-sonnet-4-6", pricing.Collected())
		s, sim := newScript(t, Options{Expand: Expand{Mode: stage.Off}}, rules),
			pricing.NewSimulator(pricing.SimulatorConfig{})
		var usages []wire.Usage
		for _, messages := range requests {
			body := fmt.Sprintf(`{"model":"claude-sonnet-4-6","max_tokens":100,"tools":[{"name":%q,`+
				`"input_schema":{"type":"object"}}],"system":%q,"messages":[%s]}`,
				tool, strings.Repeat("You are an agent that builds things. ", 1000), messages)
			v, err := wire.Parse(wire.Anthropic, []byte(body), nil)
			if err != nil {
				t.Fatal(err)
			}
			x := s.p.Begin(v, s.s, s.now)
			sent, err := wire.Parse(wire.Anthropic, x.Prompt.Body.Bytes(), nil)
			if err != nil {
				t.Fatal(err)
			}
			run, refused := sim.Begin(pricing.Call{View: sent, At: s.now})
			if refused != nil {
				t.Fatal(refused)
			}
			run.FirstByte(s.now)
			usages = append(usages, run.Usage())
			x.Commit(&wire.Turn{Text: "Done.", Done: true, Usage: run.Usage()}, s.now)
			x.Close()
			s.now = s.now.Add(time.Minute)
		}
		first, second := usages[0], usages[1]
		if wrote := first.Write5m > 0; wrote != agent || second.Read > 0 != agent {
			t.Errorf("%s: the first request comes to %+v, the second to %+v", tool, first, second)
		}
		// Without markers in the first request it is 1 + 1.25 times the prompt, with them 1.25 + 0.1.
		if cost := rules.Cost(first) + rules.Cost(second); agent && cost > 0.62*2.25*float64(first.Prompt()) {
			t.Errorf("%s: costs %.0f for a prompt of %d tokens", tool, cost, first.Prompt())
		}
	}
}

// The provider caches nothing below its minimum, so no marker is set.
func TestNoMarkersBelowTheMinimum(t *testing.T) {
	s := newScript(t, Options{Breakpoints: Breakpoints{Mode: stage.On}, Expand: Expand{Mode: stage.Off}}, keeping)
	s.marker = ""
	s.prompt("Fix the bug.")
	if x := s.send(wire.Turn{Done: true}); x.Prompt.Edited {
		t.Errorf("edited: %v", x.Prompt.Fired)
	}
}

// A turn longer than the look-back gets a marker at the previous end, with the lifetime of the
// client's own.
func TestBreakpointOnThePreviousEnd(t *testing.T) {
	s := newScript(t, Options{}, keeping)
	s.marker = `,"cache_control":{"type":"ephemeral","ttl":"1h"}`
	s.prompt("Fix the bug.")
	s.run(0, 3, false)
	s.send(wire.Turn{Done: true})
	end := s.messages[len(s.messages)-1]
	texts := make([]string, 30)
	for i := range texts {
		texts[i] = fmt.Sprintf(`{"type":"text","text":"note %d"}`, i)
	}
	s.final("Done.")
	s.add(`{"role":"user","content":[` + strings.Join(texts, ",") + `]}`)
	x := s.send(wire.Turn{Done: true})
	want := strings.TrimSuffix(end, "}]}") + s.marker + "}]}"
	if x.Prompt.Markers != 1 || !strings.Contains(string(x.Prompt.Body.Bytes()), want) {
		t.Errorf("%d markers: %s", x.Prompt.Markers, x.Prompt.Body.Bytes())
	}
}
