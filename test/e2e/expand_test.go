// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// asks returns a call of the expand tool for an unknown id. The model gets an error, and continues.
func asks() toolCall {
	return toolCall{"mcp__llm_cache__expand", map[string]any{"ids": []string{"00000000"}}}
}

// Programs with the official SDKs see one answer wherever the model restores folded text: alone,
// after text, after thinking, beside their own tools, and several times. The simulated model
// chooses its step by the answers in a request, hidden ones included. It would lose its place if
// one of them were missing.
func TestExpandSDKs(t *testing.T) {
	look := toolCall{"read_file", map[string]any{"argument": "a.go"}}
	script := []step{
		{Text: "First.", Calls: []toolCall{look}},
		{Calls: []toolCall{asks()}},
		{Text: "I see.", Calls: []toolCall{look}},
		{Text: "Let me look. ", Calls: []toolCall{asks()}},
		{Text: "Now this.", Calls: []toolCall{look}},
		step{Calls: []toolCall{asks()}}.think(), step{Text: "So.", Calls: []toolCall{look}}.think(),
		{Text: "Both.", Calls: []toolCall{asks(), look}},
		{Text: "One. ", Calls: []toolCall{asks()}},
		{Text: "Two. ", Calls: []toolCall{asks()}},
		{Text: "Three.", Calls: []toolCall{look}},
		{Text: "Done."},
	}
	want := []step{
		{Text: "First.", Calls: []toolCall{look}},
		{Text: "I see.", Calls: []toolCall{look}},
		{Text: "Let me look. Now this.", Calls: []toolCall{look}},
		{Text: "So.", Calls: []toolCall{look}},
		{Text: "Both.", Calls: []toolCall{look}},
		{Text: "One. Two. Three.", Calls: []toolCall{look}},
		{Text: "Done."},
	}
	for _, sdk := range expandSDKs {
		t.Run(sdk.name, func(t *testing.T) {
			s := startStack(t, setup{cache: "expand on", script: script})
			a := sdk.make(s.url)
			a.prompt("Find out why the build fails.")
			for i, step := range want {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				r, err := a.answer(ctx)
				cancel()
				if err != nil {
					t.Fatalf("request %d: %v", i, err)
				}
				finish := sdk.calls
				if len(step.Calls) == 0 {
					finish = sdk.stop
				}
				compare(t, i, r, step, finish)
				if r.prompt <= 0 || r.output <= 0 {
					t.Errorf("answer %d reports no usage: %+v", i, r)
				}
				a.results(results(r.calls))
			}
			s.clean(t)
			if n := s.metric(t, "caddy_llm_cache_continuations_total"); n != 5 {
				t.Errorf("%v continuations", n)
			}
			if n := s.metric(t, "caddy_llm_cache_hidden_turns_lost_total"); n != 0 {
				t.Errorf("%v hidden exchanges were lost", n)
			}
		})
	}
}

// expandSDKs are the SDKs, with the stop reasons of their formats.
var expandSDKs = []struct {
	name        string
	make        func(url string) agent
	calls, stop string
}{
	{"anthropic-sdk-go", newAnthropicAgent, "tool_use", "end_turn"},
	{"openai-go v3", newOpenAIAgent, "tool_calls", "stop"},
	{"openai-go v3 responses", newResponsesAgent, "completed", "completed"},
	{"genai", newGeminiAgent, "STOP", "STOP"},
	{"genai, not streamed", newGeminiWholeAgent, "STOP", "STOP"},
}

// An upstream that fails in the continuation is an error to the SDKs, not a short answer.
func TestExpandSDKErrors(t *testing.T) {
	script := []step{
		{Text: "Let me look.", Calls: []toolCall{asks()}},
		{Status: 500, Message: "no luck today"},
	}
	for _, sdk := range expandSDKs {
		t.Run(sdk.name, func(t *testing.T) {
			s := startStack(t, setup{cache: "expand on", script: script})
			a := sdk.make(s.url)
			a.prompt("Find out why the build fails.")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if r, err := a.answer(ctx); err == nil || !strings.Contains(err.Error(), "no luck today") {
				t.Fatalf("got %+v and the error %v", r, err)
			}
		})
	}
}

// A program leaves during the upstream's continuation: the upstream is cancelled, nothing is
// committed, and the next request finds the earlier state.
func TestExpandSDKLeaves(t *testing.T) {
	look := toolCall{"read_file", map[string]any{"argument": "a.go"}}
	script := []step{
		{Text: "Let me look. ", Calls: []toolCall{asks()}},
		{Text: "Now this.", Calls: []toolCall{look}, Hang: true},
		{Text: "Done."},
	}
	want := []step{{Text: "Let me look. Now this.", Calls: []toolCall{look}}, {Text: "Done."}}
	for _, sdk := range expandSDKs {
		t.Run(sdk.name, func(t *testing.T) {
			s := startStack(t, setup{cache: "expand on", script: script})
			a := sdk.make(s.url)
			a.prompt("Find out why the build fails.")
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan error)
			go func() {
				_, err := a.answer(ctx)
				left <- err
			}()
			s.until(t, "the upstream goes on", func() bool {
				return s.metric(t, "caddy_llm_cache_expansions_total") == 1 && s.upstream.passed() == 2 && s.inFlight(t) == 1
			})
			leave()
			if err := <-left; err == nil {
				t.Error("the program has an answer")
			}
			s.until(t, "the upstream is told", func() bool { return s.inFlight(t) == 0 })
			if n := s.remembered(t); n != 0 {
				t.Errorf("%d requests are remembered", n)
			}
			a.prompt("Are you there?")
			for i, step := range want {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				r, err := a.answer(ctx)
				cancel()
				if err != nil {
					t.Fatalf("request %d: %v", i, err)
				}
				finish := sdk.calls
				if len(step.Calls) == 0 {
					finish = sdk.stop
				}
				compare(t, i, r, step, finish)
				a.results(results(r.calls))
			}
			s.until(t, "both are remembered", func() bool { return s.remembered(t) == len(want) })
		})
	}
}

// expandClients are the users' clients.
var expandClients = []struct {
	name   string
	client func(url string) client
}{
	{"Claude Code", func(url string) client { return claudeCode{url: url} }},
	{"Codex", func(url string) client { return codex{url: url} }},
	{"opencode, Messages", func(url string) client {
		return opencode{
			url: url, provider: "anthropic",
			model: "claude-sonnet-4-5",
		}
	}},
	{"opencode, chat completions", func(url string) client {
		return opencode{
			url: url, provider: "box",
			model: "qwen3-coder",
		}
	}},
	{"opencode, Responses", func(url string) client { return opencode{url: url, provider: "openai", model: "gpt-5"} }},
	{"Gemini CLI", func(url string) client { return geminiCLI{url: url} }},
}

// Users' clients work through their script while the model restores folded text repeatedly, and
// notice nothing: alone, after text, after thinking and once more, and beside their own tools.
func TestExpandClients(t *testing.T) {
	for _, c := range expandClients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			needClient(t, c.client(""))
			needNightly(t, c.client(""))
			r := newRepository(t, c.client(""))
			first := r.first()
			var script []step
			asked := 0
			for i, s := range first {
				if i == len(first)-1 { // not before the end
					script = append(script, s)
					break
				}
				switch i % 4 {
				case 0:
					script, asked = append(script, step{Calls: []toolCall{asks()}}), asked+1
				case 1:
					script, asked = append(script, step{Text: "I need the text. ", Calls: []toolCall{asks()}}), asked+1
				case 2:
					script, asked = append(script, step{Calls: []toolCall{asks()}}.think(), step{Calls: []toolCall{asks()}}), asked+2
				case 3:
					s.Calls = append([]toolCall{asks()}, s.Calls...)
				}
				script = append(script, s)
			}
			s := startStack(t, setup{cache: "expand on", script: script})
			newUser(t, c.client(s.url), r.dir).ask(t, firstPrompt, first)
			r.check(t)
			s.clean(t)
			if n := s.metric(t, "caddy_llm_cache_continuations_total"); int(n) != asked {
				t.Errorf("%v continuations, the model asked %d times", n, asked)
			}
			if n := s.metric(t, "caddy_llm_cache_hidden_turns_lost_total"); n != 0 {
				t.Errorf("%v hidden exchanges were lost", n)
			}
		})
	}
}

// The upstream is overloaded in the continuation, or breaks off: clients retry, and work through
// their script.
func TestExpandClientsInTrouble(t *testing.T) {
	for _, c := range expandClients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			needClient(t, c.client(""))
			needNightly(t, c.client(""))
			r := newRepository(t, c.client(""))
			first := r.first()
			var script []step
			for i, s := range first {
				switch {
				case i == 2:
					script, s = append(script, step{Calls: []toolCall{asks()}}), s.fails(529, "Overloaded")
				case i == 4 && c.client("").resumes(): // Gemini CLI ends when its stream breaks off
					script, s = append(script, step{Calls: []toolCall{asks()}}), s.cut(1)
				}
				script = append(script, s)
			}
			s := startStack(t, setup{cache: "expand on", model: "in_order on", script: script})
			newUser(t, c.client(s.url), r.dir).ask(t, firstPrompt, first)
			r.check(t)
			if n := s.metric(t, "caddy_llm_cache_fail_open_total"); n != 0 {
				t.Errorf("%v requests were left alone", n)
			}
		})
	}
}

// A user ends the client during the upstream's continuation: the upstream is cancelled, and the
// client resumes the conversation in another process.
func TestExpandClientsLeave(t *testing.T) {
	for _, c := range expandClients {
		if !c.client("").resumes() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			needClient(t, c.client(""))
			needNightly(t, c.client(""))
			r := newRepository(t, c.client(""))
			first, second := r.first()[:2], r.second()
			script := slices.Concat(first, []step{{Calls: []toolCall{asks()}}}, second)
			script[len(first)+1].Hang = true
			s := startStack(t, setup{cache: "expand on", model: "in_order on", script: script})
			u := newUser(t, c.client(s.url), r.dir)
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan struct{})
			go func() {
				u.leave(ctx, firstPrompt)
				close(left)
			}()
			// The request before it may still be in flight when the expansion is counted.
			s.until(t, "the upstream goes on", func() bool {
				return s.metric(t, "caddy_llm_cache_expansions_total") >= 1 && s.upstream.passed() == len(first)+2 &&
					s.inFlight(t) == 1
			})
			leave()
			<-left
			s.until(t, "the upstream is told", func() bool { return s.inFlight(t) == 0 })
			u.ask(t, secondPrompt, second)
			if n := s.metric(t, "caddy_llm_cache_fail_open_total"); n != 0 {
				t.Errorf("%v requests were left alone", n)
			}
		})
	}
}
