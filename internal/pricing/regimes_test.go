// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// chat is a chat completions request with that many turns of about 120 tokens.
func chat(model string, turns int, members string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":%q,"messages":[{"role":"system","content":"rules"}`, model)
	for i := range turns {
		fmt.Fprintf(&b, `,{"role":"user","content":"question %d %s"},{"role":"assistant","content":"answer %d %s"}`,
			i, strings.Repeat("what of it ", 20), i, strings.Repeat("it depends ", 20))
	}
	return b.String() + `,{"role":"user","content":"end"}]` + members + `}`
}

func (s *script) chat(body string) wire.Usage {
	s.t.Helper()
	run, err := s.sim.Begin(Call{View: parse(s.t, wire.OpenAIChat, body), Credential: s.key, At: start.Add(s.at)})
	if err != nil {
		s.t.Fatalf("refused: %v", err)
	}
	run.FirstByte(start.Add(s.at))
	return run.Usage()
}

func TestAutomatic(t *testing.T) {
	s := &script{t: t, sim: NewSimulator(SimulatorConfig{})}
	body := func(n int) string { return chat("gpt-4.1", n, "") }
	first := s.chat(body(20))
	if first.Read != 0 || first.Write5m != 0 || first.Uncached < 2500 {
		t.Fatalf("first: %+v", first)
	}
	u := s.chat(body(21))
	shared := s.sim.Count(parse(t, wire.OpenAIChat, strings.Replace(body(20), `,{"role":"user","content":"end"}`, "", 1)))
	if u.Read != shared/128*128 || u.Write5m != 0 || u.Prompt() != s.sim.Count(parse(t, wire.OpenAIChat, body(21))) {
		t.Errorf("longer: %+v, %d tokens are shared", u, shared)
	}
	if u := s.chat(strings.Replace(body(21), "question 12", "Question 12", 1)); u.Read%128 != 0 || u.Read < 1024 ||
		u.Read > shared*13/20 {
		t.Errorf("changed in the middle: %+v", u)
	}
	if u := s.chat(strings.Replace(body(21), "rules", "rule", 1)); u.Read != 0 {
		t.Errorf("changed at the start: %+v", u)
	}
	if u := s.chat(body(4)); u.Read != 0 {
		t.Errorf("shorter than the minimum: %+v", u)
	}
	s.at += 23 * time.Hour
	if u := s.chat(body(21)); u.Read == 0 {
		t.Error("lost within the day that is the default")
	}
	if u := s.chat(chat("gpt-4.1", 21, `,"prompt_cache_key":"other"`)); u.Read != 0 {
		t.Error("found under another key")
	}
}

// TestUnits: a cache of units finds the end of an earlier request, but not the prefix before a
// change; once two requests have shown it, the third one finds it.
func TestUnits(t *testing.T) {
	s := &script{t: t, sim: NewSimulator(SimulatorConfig{})}
	body := chat("deepseek-flash", 20, "")
	whole := s.chat(body).Uncached
	if u := s.chat(strings.Replace(body, `"end"}]`,
		`"end"},{"role":"assistant","content":"so"},{"role":"user","content":"go on"}]`, 1)); u.Read != whole/128*128 {
		t.Errorf("continued: got %+v, want %d tokens read", u, whole)
	}
	if u := s.chat(strings.Replace(body, "question 12", "Question 12", 1)); u.Read != 0 {
		t.Errorf("changed in the middle: got %+v, want nothing read", u)
	}
	if u := s.chat(strings.Replace(body, "question 12", "QUESTION 12", 1)); u.Read < 1024 || u.Read > whole*13/20 {
		t.Errorf("changed there again: got %+v, want the common prefix read", u)
	}
}

// TestAutomaticInMemory: requests may ask for a shorter or longer lifetime than is usual.
func TestAutomaticInMemory(t *testing.T) {
	for model, asked := range map[string]string{"gpt-4.1": `,"prompt_cache_retention":"in_memory"`, "gpt-4o": ""} {
		s := &script{t: t, sim: NewSimulator(SimulatorConfig{})}
		body := chat(model, 21, asked)
		s.chat(body)
		s.at = 4 * time.Minute
		if u := s.chat(body); u.Read == 0 {
			t.Errorf("%s: lost after four minutes", model)
		}
		s.at = 9 * time.Minute
		if u := s.chat(body); u.Read != 0 {
			t.Errorf("%s: kept for five minutes without use", model)
		}
		s.chat(chat(model, 21, `,"prompt_cache_retention":"24h"`))
		s.at += 20 * time.Hour
		if u := s.chat(body); u.Read == 0 {
			t.Errorf("%s: lost within the day that was asked for", model)
		}
	}
}

// TestBreakpointsHalfDay: what is written for twelve hours is billed as such and lives so
// long.
func TestBreakpointsHalfDay(t *testing.T) {
	s := &script{t: t, sim: NewSimulator(SimulatorConfig{})}
	body := chat("gpt-6.1-sol", 20, `,"prompt_cache_options":{"ttl":"12h"}`)
	if u := s.chat(body); u.Write1h != u.Prompt() || u.Write5m != 0 {
		t.Errorf("first: %+v", u)
	}
	s.at = 11 * time.Hour
	if u := s.chat(body); u.Read == 0 {
		t.Error("lost within the twelve hours")
	}
	s.at = 24 * time.Hour
	if u := s.chat(body); u.Read != 0 {
		t.Error("kept for longer than twelve hours without use")
	}
}

// TestGeminiAtVertex: Vertex caches longer prefixes only, however it is known to be asked.
func TestGeminiAtVertex(t *testing.T) {
	v := parse(t, wire.Gemini, `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`)
	v.Address("/v1/projects/p/locations/l/publishers/google/models/gemini-3.8-flash:generateContent", "")
	if r := Lookup("gemini", v.Model, today).Asked(v); r.MinTokens != 6144 {
		t.Errorf("by its address: %d tokens", r.MinTokens)
	}
	v.Address("/v1beta/models/gemini-3.8-flash:generateContent", "")
	if r := Lookup("gemini", v.Model, today).Asked(v); r.MinTokens != 4096 {
		t.Errorf("the Gemini API: %d tokens", r.MinTokens)
	}
	if r := Lookup("vertex", "gemini-3.1-pro", today); r.MinTokens != 6144 || r.Regime != Automatic || r.Input != 2 {
		t.Errorf("by the upstream: %+v", r)
	}
}

func TestBreakpoints(t *testing.T) {
	s := &script{t: t, sim: NewSimulator(SimulatorConfig{})}
	body := func(n int) string { return chat("gpt-6.1-sol", n, "") }
	whole := func(n int) int64 { return s.sim.Count(parse(t, wire.OpenAIChat, body(n))) }
	if u := s.chat(body(20)); u.Write5m != whole(20) || u.Uncached != 0 {
		t.Fatalf("first: %+v", u)
	}
	if u := s.chat(body(20)); u.Read != whole(20) || u.Write5m != 0 {
		t.Errorf("again: %+v", u)
	}
	// The last message changes: nothing was written in front of it.
	if u := s.chat(strings.Replace(body(20), `"end"`, `"another end"`, 1)); u.Read != 0 || u.Write5m == 0 {
		t.Errorf("changed tail: %+v", u)
	}
	marked := strings.Replace(body(20), `{"role":"user","content":"question 15`,
		`{"role":"user","content":[{"type":"text","text":"stable","prompt_cache_breakpoint":{"mode":"explicit"}}]},`+
			`{"role":"user","content":"question 15`, 1)
	s.chat(marked)
	if u := s.chat(strings.Replace(marked, `"end"`, `"third end"`, 1)); u.Read == 0 || u.Write5m == 0 || u.Read+
		u.Write5m != u.Prompt() {
		t.Errorf("changed tail with an explicit breakpoint: %+v", u)
	}
	// There is no bound on the way back: 60 blocks are more than a look-back of 20.
	s.chat(strings.Replace(body(20), `"end"`, `"question 20"`, 1))
	longer := strings.Replace(chat("gpt-6.1-sol", 50, ""), `"content":"question 20 `,
		`"content":"question 20"},{"role":"user","content":"`, 1)
	if u := s.chat(longer); u.Read < whole(20)-10 {
		t.Errorf("an entry far back: %+v", u)
	}
	explicit := chat("gpt-6.1-sol", 20, `,"prompt_cache_options":{"mode":"explicit"}`)
	if u := s.chat(explicit); u.Uncached != u.Prompt() {
		t.Errorf("explicit mode without breakpoints: %+v", u)
	}
	s.at = 29 * time.Minute
	s.chat(body(20))
	s.at = 58 * time.Minute
	if u := s.chat(body(20)); u.Read == 0 {
		t.Error("not refreshed by use")
	}
	s.at = 88 * time.Minute
	if u := s.chat(body(20)); u.Read != 0 {
		t.Error("kept for thirty minutes without use")
	}
}

func TestEngineSlots(t *testing.T) {
	for slots, kept := range map[int]bool{1: false, 2: true} {
		cfg := SimulatorConfig{Rules: func(string, time.Time) Rules {
			r := Lookup("ollama", "q", today)
			r.Slots = slots
			return r
		}}
		s := &script{t: t, sim: NewSimulator(cfg)}
		if u := s.chat(chat("q", 5, "")); u.Read != 0 || u.Uncached != u.Prompt() {
			t.Fatalf("cold: %+v", u)
		}
		if u := s.chat(chat("q", 5, "")); u.Uncached != 1 {
			t.Errorf("identical: %+v, one token is processed", u)
		}
		u := s.chat(chat("q", 6, ""))
		if u.Read < u.Uncached || u.Write5m != 0 {
			t.Errorf("one turn more: %+v", u)
		}
		s.at = 100 * time.Hour
		if u := s.chat(chat("q", 6, "")); u.Uncached != 1 {
			t.Errorf("after days: %+v, nothing displaced it", u)
		}
		s.chat(`{"model":"q","messages":[{"role":"user","content":"a title for this"}]}`)
		if u := s.chat(chat("q", 7, "")); (u.Read > u.Uncached) != kept {
			t.Errorf("%d slots, after a side request: %+v", slots, u)
		}
	}
}

func TestEngineDisplacesTheOldest(t *testing.T) {
	cfg := SimulatorConfig{Rules: func(string, time.Time) Rules {
		r := Lookup("mlx_lm", "q", today)
		r.Slots = 3
		return r
	}}
	s := &script{t: t, sim: NewSimulator(cfg)}
	talk := func(i int) wire.Usage {
		return s.chat(strings.Replace(chat("q", 4, ""), "rules", fmt.Sprintf("rules of %d", i), 1))
	}
	for i := range 3 {
		talk(i)
	}
	talk(0) // 1 is the oldest now
	talk(3)
	if talk(0).Read == 0 || talk(2).Read == 0 || talk(3).Read == 0 {
		t.Error("a recent prompt was displaced")
	}
	if talk(1).Read != 0 {
		t.Error("the oldest prompt was not displaced")
	}
}

func TestSharedSlots(t *testing.T) {
	for _, shared := range []bool{false, true} {
		s := &script{t: t, sim: NewSimulator(SimulatorConfig{SharedSlots: shared}), key: "one"}
		s.chat(chat("qwen", 4, ""))
		s.key = "two"
		if u := s.chat(chat("qwen", 4, "")); (u.Read > 0) != shared {
			t.Errorf("slots shared %v: %+v", shared, u)
		}
	}
}

func TestZeroRules(t *testing.T) {
	s := &script{t: t, sim: NewSimulator(SimulatorConfig{Rules: func(string, time.Time) Rules { return Rules{} }})}
	s.chat(chat("q", 4, ""))
	if u := s.chat(chat("q", 4, "")); u.Read != 0 || u.Uncached == 0 {
		t.Errorf("%+v", u)
	}
}

func TestChatFormatWithMarkers(t *testing.T) { // a Claude behind a chat endpoint
	s := &script{t: t, sim: NewSimulator(rules(nil))}
	body := `{"model":"anthropic/claude-sonnet-4-6","messages":[{"role":"user","content":[{"type":"text",` +
		`"text":"hello","cache_control":{"type":"ephemeral"}}]}]}`
	s.chat(body)
	if u := s.chat(body); u.Read == 0 || u.Write5m != 0 {
		t.Errorf("%+v", u)
	}
}

func TestProfiles(t *testing.T) {
	want := map[string]struct {
		regime      Regime
		read, write float64
		min         int
		binds       bool
		format      wire.Format
	}{
		"anthropic-5m":     {Markers, 0.1, 1.25, 1024, false, wire.Anthropic},
		"anthropic-1h":     {Markers, 0.1, 1.25, 1024, false, wire.Anthropic},
		"opus-5.5":         {Markers, 0.05, 1.25, 512, true, wire.Anthropic},
		"fable-5.2":        {Markers, 0.025, 1.25, 512, true, wire.Anthropic},
		"openai":           {Breakpoints, 0.1, 1.25, 1024, false, wire.OpenAIChat},
		"gpt-6.1":          {Breakpoints, 0.05, 1.25, 1024, false, wire.OpenAIChat},
		"gpt-6.2":          {Breakpoints, 0.05, 1.25, 1024, false, wire.OpenAIResponses},
		"openai-responses": {Breakpoints, 0.1, 1.25, 1024, false, wire.OpenAIResponses},
		"gemini":           {Automatic, 0.1, 1, 4096, false, wire.Gemini},
		"interactions":     {Automatic, 0.1, 1, 4096, false, wire.Interactions},
		"deepseek":         {Automatic, 0.02, 1, 0, false, wire.OpenAIChat},
		"qwen":             {Markers, 0.1, 1.25, 1024, false, wire.Anthropic},
		"openrouter":       {Markers, 0.1, 1.25, 1024, false, wire.Anthropic},
		"kv":               {KV, 0, 1, 0, false, wire.OpenAIChat},
	}
	if len(Profiles()) != len(want) {
		t.Errorf("profiles: %v", Profiles())
	}
	for name, w := range want {
		p, err := ProfileByName(name)
		if err != nil {
			t.Error(err)
			continue
		}
		r := p.Rules()
		if r.Regime != w.regime || !near(r.Read, w.read) || !near(r.Write, w.write) || r.MinTokens != w.min ||
			r.BindsThinking != w.binds || p.Format != w.format || !r.KeepsThinking || p.Doc == "" {
			t.Errorf("%s: %+v", name, r)
		}
		if got := p.Config().Rules("any", start); got != r {
			t.Errorf("%s: the simulator's rules are %+v", name, got)
		}
		if p.LongTTL != (name == "anthropic-1h") || p.Adaptive != (p.Format == wire.Anthropic) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if _, err := ProfileByName("none"); err == nil || !strings.Contains(err.Error(), "fable-5.2") {
		t.Errorf("unknown profile: %v", err)
	}
}
