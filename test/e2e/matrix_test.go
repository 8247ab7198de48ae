// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/contract"
)

// upstreams are servers of one API each, with their options.
var upstreams = map[contract.API]string{
	contract.Chat:      "upstream mlx_lm {\n model * qwen3-coder\n}",
	contract.Anthropic: "upstream anthropic {\n model * claude-sonnet-4-5\n}",
	contract.Responses: "upstream openai {\n format openai_responses\n model * gpt-5.4\n}",
	contract.Gemini:    "upstream gemini {\n format gemini\n model * gemini-2.5-pro\n}",

	contract.Interactions: "upstream gemini {\n format interactions\n model * gemini-3.1-pro\n}",
}

// Every client and every SDK works through a task and a second one after it, with a server of its
// API and with one of another, in the nightly run with one of each. Clients take up to a minute of
// processor time for it. So outside of the nightly run clients of several APIs use one, and the
// slowest meet a server of another API only. They end with the model's last text, no request fails,
// and all requests are one conversation that only grows.
func TestMatrix(t *testing.T) {
	type row struct {
		name   string
		api    contract.API
		other  contract.API // the target of translation outside of the nightly run, "" for none
		slow   bool
		client func(url string) client
		file   string
		env    []string
	}
	sdk := func(name string, api, other contract.API, file string, env ...string) row {
		return row{name: name, api: api, other: other, file: file, env: env}
	}
	cli := func(name string, api, other contract.API, c func(url string) client) row {
		return row{name: name, api: api, other: other, client: c}
	}
	slow := func(name string, api, other contract.API, c func(url string) client) row {
		return row{name: name, api: api, other: other, slow: true, client: c}
	}
	nightly := os.Getenv("LLM_CACHE_NIGHTLY") != ""
	all := []contract.API{contract.Anthropic, contract.Chat, contract.Responses, contract.Gemini, contract.Interactions}
	for _, c := range []row{
		cli("Claude Code", contract.Anthropic, contract.Responses, func(url string) client { return claudeCode{url: url} }),
		cli("Claude Code, threads", contract.Anthropic, contract.Chat,
			func(url string) client { return threads{claudeCode{url: url}} }),
		cli("Codex", contract.Responses, contract.Gemini, func(url string) client { return codex{url: url} }),
		slow("opencode, Messages", contract.Anthropic, contract.Gemini,
			func(url string) client { return opencode{url: url, provider: "anthropic", model: "claude-sonnet-4-5"} }),
		slow("opencode, chat completions", contract.Chat, "",
			func(url string) client { return opencode{url: url, provider: "box", model: "qwen3-coder"} }),
		slow("opencode, Responses", contract.Responses, "",
			func(url string) client { return opencode{url: url, provider: "openai", model: "gpt-5"} }),
		cli("Gemini CLI", contract.Gemini, contract.Chat, func(url string) client { return geminiCLI{url: url} }),
		slow("Qwen Code, chat completions", contract.Chat, contract.Anthropic,
			func(url string) client { return qwenCode{url, "openai"} }),
		slow("Qwen Code, Messages", contract.Anthropic, "", func(url string) client { return qwenCode{url, "anthropic"} }),
		slow("Qwen Code, Gemini", contract.Gemini, "", func(url string) client { return qwenCode{url, "gemini"} }),
		cli("pi, Messages", contract.Anthropic, "", func(url string) client { return pi{url, "anthropic-messages"} }),
		cli("pi, chat completions", contract.Chat, "", func(url string) client { return pi{url, "openai-completions"} }),
		cli("pi, Responses", contract.Responses, contract.Gemini,
			func(url string) client { return pi{url, "openai-responses"} }),
		cli("pi, Gemini", contract.Gemini, "", func(url string) client { return pi{url, "google-generative-ai"} }),
		slow("Cline, Messages", contract.Anthropic, "", func(url string) client { return cline{url, "anthropic"} }),
		slow("Cline, chat completions", contract.Chat, contract.Responses,
			func(url string) client { return cline{url, "openai-compatible"} }),
		slow("Kilo, Messages", contract.Anthropic, "", func(url string) client {
			return kilo{opencode{url: url, provider: "anthropic", model: "claude-sonnet-4-5"}}
		}),
		slow("Kilo, chat completions", contract.Chat, contract.Gemini,
			func(url string) client { return kilo{opencode{url: url, provider: "box", model: "qwen3-coder"}} }),
		slow("Kilo, Responses", contract.Responses, "",
			func(url string) client { return kilo{opencode{url: url, provider: "openai", model: "gpt-5"}} }),

		sdk("@anthropic-ai/sdk", contract.Anthropic, contract.Chat, "anthropic.mjs"),
		sdk("@anthropic-ai/sdk, toolRunner", contract.Anthropic, contract.Chat, "anthropic_runner.mjs"),
		sdk("@anthropic-ai/sdk, toolRunner, streamed", contract.Anthropic, contract.Responses, "anthropic_runner.mjs",
			"STREAM=1"),
		sdk("openai, chat completions", contract.Chat, contract.Anthropic, "openai.mjs"),
		sdk("openai, Responses", contract.Responses, contract.Chat, "openai_responses.mjs"),
		sdk("@google/genai", contract.Gemini, contract.Chat, "genai.mjs"),
		sdk("@google/genai, interactions", contract.Interactions, contract.Chat, "interactions.mjs"),
		sdk("ai, @ai-sdk/anthropic", contract.Anthropic, contract.Chat, "vercel.mjs", "API=anthropic"),
		sdk("ai, @ai-sdk/openai, chat completions", contract.Chat, contract.Gemini, "vercel.mjs", "API=chat"),
		sdk("ai, @ai-sdk/openai, Responses", contract.Responses, contract.Anthropic, "vercel.mjs", "API=responses"),
		sdk("ai, @ai-sdk/openai-compatible", contract.Chat, contract.Responses, "vercel.mjs", "API=compatible"),
		sdk("ai, @ai-sdk/google", contract.Gemini, contract.Interactions, "vercel.mjs", "API=gemini"),
		sdk("@langchain/anthropic", contract.Anthropic, contract.Gemini, "langchain.mjs", "API=anthropic"),
		sdk("@langchain/openai, chat completions", contract.Chat, contract.Anthropic, "langchain.mjs", "API=chat"),
		sdk("@langchain/openai, Responses", contract.Responses, contract.Chat, "langchain.mjs", "API=responses"),
		sdk("@langchain/google-genai", contract.Gemini, contract.Anthropic, "langchain.mjs", "API=gemini"),
		sdk("@llamaindex/anthropic", contract.Anthropic, contract.Chat, "llamaindex.mjs", "API=anthropic"),
		sdk("@llamaindex/openai", contract.Chat, contract.Anthropic, "llamaindex.mjs", "API=chat"),
		sdk("@openai/agents, Responses", contract.Responses, contract.Anthropic, "agents.mjs", "API=responses"),
		sdk("@openai/agents, chat completions", contract.Chat, contract.Responses, "agents.mjs", "API=chat"),
	} {
		for _, upstream := range all {
			usual := upstream == c.other || upstream == c.api && c.other != "" && !c.slow
			if !usual && !nightly {
				continue
			}
			t.Run(c.name+" to "+string(upstream), func(t *testing.T) {
				t.Parallel()
				cache := "policy cost_aware"
				if upstream != c.api {
					cache = upstreams[upstream]
				}
				if c.client != nil {
					converseClient(t, c.client, cache, upstream)
				} else {
					converseProgram(t, program{file: c.file, env: c.env}, cache, upstream)
				}
			})
		}
	}
}

func converseClient(t *testing.T, make func(url string) client, cache string, upstream contract.API) {
	needClient(t, make(""))
	r := newRepository(t, make(""))
	first, second := r.brief()
	// Some clients edit only files that they have read since their start.
	second = slices.Insert(second, 1, calls(r.read("notes.go")))
	if !make("").resumes() {
		first, second = slices.Concat(first[:len(first)-1], second), nil
	}
	s := startStack(t, setup{cache: cache, script: asFunctions(upstream, slices.Concat(first, second)), audit: true})
	u := newUser(t, make(s.url), r.dir)
	u.ask(t, firstPrompt, first)
	if second != nil {
		u.ask(t, secondPrompt, second)
	}
	r.check(t)
	_, threaded := u.client.(threads)
	s.one(t, len(first)+len(second), upstream, threaded && upstream != contract.Anthropic)
	if threaded && upstream == contract.Anthropic {
		s.goesOn(t, len(first)+len(second)-2) // the first request of each task is whole
	}
}

// goesOn checks that at least so many requests were part of a thread with new messages only: as the
// client wrote them, as the server got them, and in the header to the client.
func (s *stack) goesOn(t *testing.T, atLeast int) {
	t.Helper()
	count := func(w *witness) (n, messages, deltas int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, r := range w.threaded {
			if r.goesOn {
				n, messages = n+1, max(messages, r.messages)
				if strings.HasPrefix(r.retained, "delta; ") {
					deltas++
				}
			}
		}
		return n, messages, deltas
	}
	sent, most, deltas := count(s.clients)
	got, mostGot, _ := count(s.upstream)
	if sent < atLeast || got < sent || deltas != sent || mostGot != most { // a whole task may be known, too
		t.Errorf("the client went on %d times, by %d messages at most, and was told of %d; the server saw %d, by %d; want "+
			"%d or more", sent, most, deltas, got, mostGot, atLeast)
	}
	t.Logf("%d requests went on in a thread, by %d messages at most", sent, most)
}

// asFunctions replaces calls with free text by function calls, for models of APIs without the
// former. The module offers such tools as functions there.
func asFunctions(upstream contract.API, steps []step) []step {
	if upstream == contract.Responses {
		return steps
	}
	steps = slices.Clone(steps)
	for i := range steps {
		steps[i].Calls = slices.Clone(steps[i].Calls)
		for j, c := range steps[i].Calls {
			if text, ok := c.Input.(string); ok {
				steps[i].Calls[j] = toolCall{"functions__" + c.Name, map[string]any{"input": text}}
			}
		}
	}
	return steps
}

func converseProgram(t *testing.T, p program, cache string, upstream contract.API) {
	needSDKs(t)
	r := newRepository(t, p)
	first, second := r.brief()
	s := startStack(t, setup{cache: cache, script: slices.Concat(first, second), audit: true})
	p.url = s.url
	p.converse(t, r.dir, map[string][]step{firstPrompt: first, secondPrompt: second}, firstPrompt, secondPrompt)
	r.check(t)
	s.one(t, len(first)+len(second), upstream, p.file == "anthropic_runner.mjs" && upstream != contract.Anthropic)
}

// one checks that all requests were one conversation of one session, with a server of that API, and
// that each was answered and extended the previous one. A client that asks for retention at a
// server without it gets one refusal a task.
func (s *stack) one(t *testing.T, requests int, upstream contract.API, unretained bool) {
	t.Helper()
	statuses, refused := map[int]int{http.StatusOK: requests}, 0
	for _, e := range s.access(t, "front.log") {
		if unretained && e.Status == http.StatusBadRequest && refused < 2 {
			refused++
			statuses[e.Status] = refused
		}
	}
	turns, read := s.turns(t, statuses), int64(0)
	conversations := map[string]bool{}
	for i, turn := range turns {
		if (turn.Outcome == "completed") != (turn.Status == http.StatusOK) || turn.UpstreamFormat != string(upstream) {
			t.Errorf("turn %d: %+v", i, turn)
		}
		conversations[turn.Session] = true
		read += turn.Billed.Read
	}
	if n := len(conversations); n > 1 {
		t.Errorf("one conversation is %d sessions: %+v", n, turns)
	}
	for _, log := range []string{"front.log", "model.log"} {
		for _, e := range s.access(t, log) {
			if e.Status != http.StatusOK && (log == "model.log" || statuses[e.Status] == 0) {
				t.Errorf("%s: %s: status %d", log, e.Request.URI, e.Status)
			}
		}
	}
	list, err := s.sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for i := range list {
		if conversations[list[i].ID] {
			known += list[i].requests()
		}
	}
	if known < requests { // the rest are side requests
		t.Errorf("the admin endpoint counts %d requests of %d: %+v", known, requests, list)
	}
	_, brokenByClient := s.clients.prefixes()
	whole, broken := s.upstream.prefixes()
	if broken > brokenByClient {
		t.Errorf("%d requests do not begin with the one before them, of the client's %d", broken, brokenByClient)
	}
	t.Logf("%d requests begin with all of the one before them, %d do not (%d of the client's); %d tokens read from the "+
		"cache", whole, broken, brokenByClient, read)
}

// threads is Claude Code with the conversation in a thread at the server, as with Anthropic's own
// address.
type threads struct{ claudeCode }

func (c threads) command(home, prompt string, further bool) (args, env []string) {
	args, env = c.claudeCode.command(home, prompt, further)
	return args, append(env, "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL=1", "CLAUDE_CODE_TETHER_LIVE=1")
}
