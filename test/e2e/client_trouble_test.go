// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The model's server refuses a request, fails, and breaks a stream off. Clients retry in their own
// ways: they get their server's error, and their retries belong to the same conversation.
func TestClientsInTrouble(t *testing.T) {
	for _, c := range []struct {
		name   string
		client func(url string) client
	}{
		{"Claude Code", func(url string) client { return claudeCode{url: url} }},
		{"Codex", func(url string) client { return codex{url: url} }},
		{"Codex, WebSocket", func(url string) client { return codex{url: url, socket: true} }},
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
		{"Gemini CLI", func(url string) client { return geminiCLI{url: url} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			needClient(t, c.client(""))
			needNightly(t, c.client(""))
			r := newRepository(t, c.client(""))
			steps := r.first()
			steps[2] = steps[2].fails(http.StatusTooManyRequests, "")
			steps[4] = steps[4].fails(http.StatusInternalServerError, "")
			if _, ok := c.client("").(geminiCLI); ok {
				steps[6] = steps[6].ends(1) // retried; the client ends on any broken connection
			} else {
				steps[6] = steps[6].cut(4)
			}
			_, socket := c.client("").(codex)
			socket = socket && c.client("").(codex).socket
			s := startStack(t, setup{
				cache: "policy cost_aware", model: "in_order on", script: steps, audit: true,
				socket: socket,
			})
			newUser(t, c.client(s.url), r.dir).ask(t, firstPrompt, steps)
			r.check(t)

			turns := s.turns(t, map[int]int{
				http.StatusOK: len(steps) + 1, http.StatusTooManyRequests: 1,
				http.StatusInternalServerError: 1,
			})
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
			if ends["failed"] != 2 || ends["interrupted"] != 1 {
				t.Errorf("outcomes %v, want 2 failed, 1 interrupted", ends)
			}
		})
	}
}

const (
	// sumsUp is the model's summary of a conversation.
	sumsUp = "<summary>The user asked to look through the repository. Its files were read.</summary>"
	// tooLong is the Messages API's refusal of a long prompt.
	tooLong = "prompt is too long: 210534 tokens > 200000 maximum"
)

// Conversations grow too long: the server refuses them, or the client notices by the usage. The
// client requests a summary and continues.
func TestClientsCompact(t *testing.T) {
	for _, c := range []struct {
		name   string
		client func(url string) client
		// refused is the step before which the server refuses the prompt as too long, 0 if the
		// client compacts earlier. summary is the step that answers the request for a summary, 0 if
		// the request offers no tools.
		refused, summary int
		// bound is the number of requests that the API refuses for thinking with a changed context.
		bound int
		// edited reports whether llm_cache has edited the refused prompt. The client's own bytes
		// are sent next and are too long, too.
		edited bool
	}{
		{"Claude Code, older model", func(url string) client { return claudeCode{url, "claude-sonnet-4-5"} }, 8, 8, 0, true},
		// It keeps the thinking of its last answer after the summary. The API refuses that, and the
		// client retries without it, with and without llm_cache. llm_cache recognizes the client's
		// fault when the API refuses the client's own bytes, too.
		{"Claude Code", func(url string) client { return claudeCode{url: url} }, 8, 8, 1, false},
		{"Codex", func(url string) client { return codex{url: url, compact: 25000} }, 0, 5, 0, false},
		{"opencode, chat completions", func(url string) client {
			return opencode{url: url, provider: "box", model: "qwen3-coder", window: 24000}
		}, 0, 0, 0, false},
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
				statuses[http.StatusBadRequest] = 1 + c.bound
				if c.edited {
					steps[c.refused].Times = 2
				}
			}
			_, socket := c.client("").(codex)
			socket = socket && c.client("").(codex).socket
			s := startStack(t, setup{
				cache: "policy cost_aware", model: "in_order on", script: steps, audit: true,
				socket: socket,
			})
			newUser(t, c.client(s.url), r.dir).ask(t, firstPrompt, steps)
			r.check(t)

			s.resends = c.bound
			if c.edited {
				s.resends++
			}
			turns := s.turns(t, statuses)
			sessions, err := s.sessions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range sessions[0].Conversations {
				if l.Frozen {
					t.Error("a conversation is left alone")
				}
			}
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

// The refusals after a compaction by Claude Code are the client's own: without llm_cache it gets
// the same responses.
func TestClaudeCodeCompactsAlone(t *testing.T) {
	needClient(t, claudeCode{})
	r := newRepository(t, claudeCode{})
	steps := slices.Insert(r.first(), 8, step{Text: sumsUp}.fails(http.StatusBadRequest, tooLong))
	s := startStack(t, setup{model: "in_order on", script: steps})
	newUser(t, claudeCode{url: "http://" + s.modelAddr}, r.dir).ask(t, firstPrompt, steps)
	r.check(t)
	got := map[int]int{}
	for _, e := range s.access(t, "model.log") {
		got[e.Status]++
	}
	if want := map[int]int{http.StatusOK: len(steps), http.StatusBadRequest: 2}; !maps.Equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
}

// Gemini CLI compresses the history before a user's prompt at the next prompt. A history with tool
// calls would fail earlier: after a resume it has every result twice, which the API refuses.
func TestGeminiCLICompacts(t *testing.T) {
	needClient(t, geminiCLI{})
	r := newRepository(t, geminiCLI{})
	var list strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&list, "Function %d of part %d multiplies what it gets by %d and adds one. ", i, i%7, i*31%97)
	}
	said := step{Text: strings.TrimSpace(list.String())}
	first, second := r.brief()
	task := slices.Concat(first[:len(first)-1], second)
	s := startStack(t, setup{
		cache: "policy cost_aware", model: "in_order on", script: slices.Concat([]step{said}, task),
		audit: true,
	})
	u := newUser(t, geminiCLI{url: s.url, compress: 0.02}, r.dir)
	u.ask(t, "What is in this repository?", []step{said})
	u.ask(t, firstPrompt, task)
	r.check(t)
	turns := s.turns(t, map[int]int{http.StatusOK: 1 + len(task)})
	t.Logf("after the compression: %+v", turns[1])
	if turns[1].OriginalTokens > turns[0].OriginalTokens+int64(len(said.Text)/8) {
		t.Errorf("the conversation was not compressed: %d tokens, then %d", turns[0].OriginalTokens, turns[1].OriginalTokens)
	}
}
