// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package e2e

import (
	"net/http"
	"slices"
	"testing"
)

// The model's server refuses a request, fails and breaks a stream off in the
// middle. Clients try again, each in its own way: they see their server's error,
// and what they send then is taken for what it is.
func TestClientsInTrouble(t *testing.T) {
	for _, c := range []struct {
		name   string
		client func(url string) client
	}{
		{"Claude Code", func(url string) client { return claudeCode{url: url} }},
		{"Codex", func(url string) client { return codex{url: url} }},
		{"opencode, Messages", func(url string) client { return opencode{url: url, provider: "anthropic", model: "claude-sonnet-4-5"} }},
		{"opencode, chat completions", func(url string) client { return opencode{url: url, provider: "box", model: "qwen3-coder"} }},
		{"Gemini CLI", func(url string) client { return geminiCLI{url: url} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			needClient(t, c.client(""))
			r := newRepository(t, c.client(""))
			steps := r.first()
			steps[2] = steps[2].fails(http.StatusTooManyRequests, "")
			steps[4] = steps[4].fails(http.StatusInternalServerError, "")
			cut := 1
			if _, ok := c.client("").(geminiCLI); ok {
				cut = 0 // it ends when its stream breaks off, whoever cuts it
			} else {
				steps[6] = steps[6].cut(4)
			}
			s := startStack(t, setup{cache: "policy cost_aware", model: "in_order on", script: steps, audit: true})
			newUser(t, c.client(s.url), r.dir).ask(t, firstPrompt, steps)
			r.check(t)

			turns := s.turns(t, map[int]int{http.StatusOK: len(steps) + cut, http.StatusTooManyRequests: 1, http.StatusInternalServerError: 1})
			ends := map[string]int{}
			for i, turn := range turns {
				ends[turn.Outcome]++
				if turn.Session != turns[0].Session {
					t.Errorf("turn %d is of another session: %+v", i, turn)
				}
				if i > 0 && turn.Outcome == "completed" && turn.Billed.Read == 0 {
					t.Errorf("answer %d read nothing from the cache: %+v", i, turn)
				}
			}
			if ends["failed"] != 2 || ends["interrupted"] != cut {
				t.Errorf("outcomes %v, want 2 failed, %d interrupted", ends, cut)
			}
		})
	}
}

// sumsUp stands for what the model sums a conversation up to.
const sumsUp = "<summary>The user asked to look through the repository. Its files were read.</summary>"

// Conversations grow too long: the server says so, or the client finds by the
// usage that it is told. The client has the model sum it up, and goes on.
func TestClientsCompact(t *testing.T) {
	const tooLong = "prompt is too long: 210534 tokens > 200000 maximum"
	for _, c := range []struct {
		name   string
		client func(url string) client
		// refused is the step before which the server finds the prompt too long,
		// 0 where the client compacts before; summary is the step that answers the
		// request for a summary, 0 where that offers no tools.
		refused, summary int
	}{
		// A model without a check on what stood before its thinking, which Claude
		// Code keeps.
		{"Claude Code", func(url string) client { return claudeCode{url, "claude-sonnet-4-5"} }, 8, 8},
		{"Codex", func(url string) client { return codex{url: url, compact: 25000} }, 0, 5},
		{"opencode, chat completions", func(url string) client {
			return opencode{url: url, provider: "box", model: "qwen3-coder", window: 24000}
		}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			needClient(t, c.client(""))
			r := newRepository(t, c.client(""))
			steps := r.first()
			if c.summary > 0 {
				steps = slices.Insert(steps, c.summary, step{Text: sumsUp})
			}
			statuses := map[int]int{http.StatusOK: len(steps)}
			if c.refused > 0 {
				steps[c.refused] = steps[c.refused].fails(http.StatusBadRequest, tooLong)
				statuses[http.StatusBadRequest] = 1
			}
			s := startStack(t, setup{cache: "policy cost_aware", model: "in_order on", script: steps, audit: true})
			newUser(t, c.client(s.url), r.dir).ask(t, firstPrompt, steps)
			r.check(t)

			turns := s.turns(t, statuses)
			shorter, prompts := 0, []int64{turns[0].OriginalTokens}
			for i, turn := range turns[1:] {
				prompts = append(prompts, turn.OriginalTokens)
				if turn.Session != turns[0].Session {
					t.Errorf("turn %d is of another session: %+v", i+1, turn)
				}
				if turn.OriginalTokens < turns[i].OriginalTokens*9/10 {
					shorter++
				}
			}
			t.Logf("prompts %v", prompts)
			if shorter == 0 {
				t.Error("the conversation never became shorter")
			}
		})
	}
}
