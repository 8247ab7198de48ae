// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// agent is a program around an SDK. It keeps its conversation itself, as the SDK accumulates it.
type agent interface {
	// prompt adds a user's message.
	prompt(text string)
	// results adds the results of the last reply's calls, in their order.
	results(texts []string)
	// answer sends the conversation and streams the model's answer.
	answer(ctx context.Context) (reply, error)
}

// reply is an answer of the model as accumulated by an SDK.
type reply struct {
	text   string
	calls  []sdkCall
	finish string
	prompt int64 // tokens of the whole prompt
	cached int64 // of these, tokens read from the cache
	output int64
}

type sdkCall struct{ id, name, arguments string }

// Programs with the official SDKs stream a task of many tool calls, and a second one after it.
func TestSDKs(t *testing.T) {
	for _, sdk := range []struct {
		name string
		make func(url string) agent
		// calls and stop are the finish reasons of an answer with and without calls.
		calls, stop string
	}{
		{"anthropic-sdk-go", newAnthropicAgent, "tool_use", "end_turn"},
		{"anthropic-sdk-go v2", newAnthropicV2Agent, "tool_use", "end_turn"},
		{"openai-go v3", newOpenAIAgent, "tool_calls", "stop"},
		{"openai-go v3 responses", newResponsesAgent, "completed", "completed"},
		{"genai", newGeminiAgent, "STOP", "STOP"},
		{"genai, not streamed", newGeminiWholeAgent, "STOP", "STOP"},
	} {
		for _, policy := range []string{"cost_aware", "eager"} {
			t.Run(sdk.name+" "+policy, func(t *testing.T) {
				script := sdkScript()
				s := startStack(t, setup{cache: "policy " + policy, script: script})
				a := sdk.make(s.url)
				replies := make([]reply, 0, len(script))
				a.prompt("Find out why the build fails.")
				for i, step := range script {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					r, err := a.answer(ctx)
					cancel()
					if err != nil {
						t.Fatalf("request %d: %v", i, err)
					}
					finish := sdk.calls
					if len(step.Calls) == 0 {
						finish = sdk.stop
						a.prompt("Now mend it.")
					}
					compare(t, i, r, step, finish)
					a.results(results(r.calls))
					replies = append(replies, r)
				}

				sessions, entries := s.wait(t, 1)
				s.clean(t)
				if len(entries) != len(script) {
					t.Errorf("%d requests for %d steps", len(entries), len(script))
				}
				var read int64
				for i, r := range replies {
					if r.prompt <= 0 || r.output <= 0 {
						t.Errorf("answer %d reports no usage: %+v", i, r)
					}
					// These programs set no cache markers. llm_cache sets them when the
					// conversation has grown, as the second request shows.
					if i > 1 && r.cached == 0 {
						t.Errorf("answer %d read nothing from the cache: %+v", i, r)
					}
					read += r.cached
				}
				if got := sessions[0].Conversations[0].Total.Read; len(sessions[0].Conversations) != 1 || got != read {
					t.Errorf("the admin endpoint counts %d tokens read in %d conversations, the client %d in one", got,
						len(sessions[0].Conversations), read)
				}
				saved := 0.0
				for i := range entries {
					saved += entries[i].number(t, "X-Llm-Cache-Saved-Tokens")
				}
				if policy == "eager" && saved == 0 {
					t.Error("eager never saved a token")
				}
				t.Logf("last answer %+v, %v tokens not sent", replies[len(replies)-1], saved)
			})
		}
	}
}

// compare checks that a reply equals the step of the script.
func compare(t *testing.T, i int, r reply, want step, finish string) {
	t.Helper()
	if r.text != want.Text || r.finish != finish || len(r.calls) != len(want.Calls) {
		t.Fatalf("answer %d: %+v, want %+v and %s", i, r, want, finish)
	}
	for j, c := range r.calls {
		var got map[string]any
		if err := json.Unmarshal([]byte(c.arguments), &got); err != nil {
			t.Fatalf("answer %d: arguments %s: %v", i, c.arguments, err)
		}
		if c.id == "" || c.name != want.Calls[j].Name || !reflect.DeepEqual(got, want.Calls[j].Input) {
			t.Errorf("answer %d: call %+v, want %+v", i, c, want.Calls[j])
		}
	}
}

// sdkTools are the tools of the programs: name and description.
var sdkTools = [][2]string{
	{"read_file", "Reads a file and returns its text, each line with its number."},
	{"run", "Runs a command and returns what it printed."},
}

// sdkParameters is the JSON schema of each tool's arguments.
var sdkParameters = map[string]any{"argument": map[string]any{"type": "string"}}

// sdkSystem is long enough for a provider to cache it.
var sdkSystem = "You are an agent that works on a repository. " +
	strings.Repeat("Read before you write, keep changes small, and say what you did when you are done. ", 120)

// sdkScript returns two tasks of eight steps with tools each.
func sdkScript() (script []step) {
	for task := range 2 {
		for i := range 8 {
			path := fmt.Sprintf("src/%d/file_%d.go", task, i)
			c := []toolCall{{"read_file", map[string]any{"argument": path}}}
			if i%3 == 2 {
				c = append(c, toolCall{"run", map[string]any{"argument": "grep -n \"func\\t<ü>\" " + path}})
			}
			next := calls(c...)
			if i%4 == 1 {
				next = next.think()
			}
			script = append(script, next)
		}
		script = append(script, step{Text: fmt.Sprintf("Task %d is done: 100 %%, \"quoted\" & <ünïcödé> 🙂.", task)})
	}
	return script
}

// results returns invented results of the tools.
func results(calls []sdkCall) (texts []string) {
	for _, c := range calls {
		var b strings.Builder
		for line := range 60 {
			fmt.Fprintf(&b, "%4d\tresult := handle(%q, %d) // %s\n", line, c.id, line*line, c.name)
		}
		texts = append(texts, b.String())
	}
	return texts
}
