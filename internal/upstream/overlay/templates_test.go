// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// template renders chat requests by the rules of a model's published chat template, as far as they
// decide where a prompt changes.
type template struct {
	name       string
	toolsFirst bool   // tools stand before the system text
	middle     string // a system message in the middle: "" in place, hoisted, dropped, error
	// strips removes thinking from turns before the last user message. hollow puts an empty block
	// before the turns after it. preserves turns both off on request.
	strips, hollow, preserves bool
}

// The behavior was measured with the templates of llama.cpp.
var templates = []template{
	{name: "Qwen2.5, Qwen3-Coder, Llama-3.3, Devstral"},
	{name: "DeepSeek-V3.1", middle: "hoisted"},
	{name: "Qwen3, Gemma-4", strips: true},
	{name: "gpt-oss, MiniMax-M2", strips: true, middle: "dropped"},
	{name: "GLM-4.6, Kimi-K2-Thinking", toolsFirst: true, strips: true},
	{name: "Qwen3.5", toolsFirst: true, strips: true, hollow: true, middle: "error"},
	{name: "Qwen3.6 and later", toolsFirst: true, strips: true, hollow: true, preserves: true, middle: "error"},
	{name: "GLM-4.7-Flash, Kimi-K2-Instruct", toolsFirst: true},
	{name: "Nemotron-3-Nano, DeepSeek-V4", middle: "hoisted"},
}

func text(c gjson.Result) (all string) {
	if c.Type == gjson.String {
		return c.Str
	}
	for _, p := range c.Array() {
		all += p.Get("text").Str
	}
	return all
}

func (p template) render(body string) (string, error) {
	root := gjson.Parse(body)
	messages := root.Get("messages").Array()
	system := ""
	if messages[0].Get("role").Str == "system" {
		system, messages = text(messages[0].Get("content")), messages[1:]
	}
	query := -1 // the last user message
	for i, m := range messages {
		switch m.Get("role").Str {
		case "user":
			query = i
		case "system":
			if p.middle == "error" {
				return "", errors.New("system message must be at the beginning")
			}
			if p.middle == "hoisted" {
				system += "\n" + text(m.Get("content"))
			}
		}
	}
	tools := ""
	for _, t := range root.Get("tools").Array() {
		tools += t.Raw + "\n"
	}
	parts := []string{system, tools}
	if p.toolsFirst {
		slices.Reverse(parts)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<|system|>%s<|end|>", strings.Join(parts, "\n"))
	for i, m := range messages {
		role := m.Get("role").Str
		if role == "system" && p.middle != "" {
			continue
		}
		fmt.Fprintf(&b, "<|%s|>", role)
		if role == "assistant" {
			thinking := m.Get("reasoning_content").Str
			switch {
			case i < query && p.strips && !(p.preserves && root.Get("chat_template_kwargs.preserve_thinking").Bool()):
			case thinking != "" || p.hollow:
				fmt.Fprintf(&b, "<think>%s</think>", thinking)
			}
		}
		b.WriteString(text(m.Get("content")))
		for _, c := range m.Get("tool_calls").Array() {
			fmt.Fprintf(&b, "<call>%s %s</call>", c.Get("function.name").Str, c.Get("function.arguments").Str)
		}
		b.WriteString("<|end|>")
	}
	return b.String(), nil
}

// agentRequests returns the requests of an agent of chat completions with habits that break
// prefixes: it drops its thinking, rewrites arguments, puts system messages in the middle, shuffles
// its tools and changes the date.
func agentRequests(turns, resumed int) (bodies []string, answers []wire.Turn) {
	messages := []string{hello}
	for i := range turns {
		tools := []string{toolA, toolB, toolC}
		if i%3 == 1 {
			slices.Reverse(tools)
		}
		if i > 5 {
			tools = slices.DeleteFunc(tools, func(s string) bool { return s == toolB })
		}
		day := "Monday"
		if i >= resumed {
			day = "Tuesday"
		}
		bodies = append(bodies, chat("You are an agent.\nToday's date: "+day+"\n", strings.Join(tools, ","), messages...))
		answer := wire.Turn{
			Text: fmt.Sprintf("Step %d.", i), Thinking: fmt.Sprintf("Thought %d.", i),
			Calls: []wire.Call{{Name: "A", Arguments: fmt.Sprintf(`{"n": %d}`, i)}},
		}
		if i == resumed-1 {
			answer = wire.Turn{Text: "Done.", Thinking: "All done."}
		}
		answers = append(answers, answer)
		if i == resumed-1 {
			messages = append(messages, `{"role":"assistant","content":"Done."}`, `{"role":"user","content":"Go on"}`)
			continue
		}
		messages = append(messages,
			fmt.Sprintf(`{"role":"assistant","content":"Step %d.","tool_calls":[{"id":"c%d","type":"function",`+
				`"function":{"name":"A","arguments":"{\"n\":%d}"}}]}`, i, i, i),
			fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":[{"type":"text","text":"result %d"}]}`, i, i))
		if i%2 == 0 {
			messages = append(messages, fmt.Sprintf(`{"role":"system","content":"Reminder %d"}`, i),
				fmt.Sprintf(`{"role":"system","content":"<total_tokens>%d tokens left</total_tokens>"}`, 1000-i))
		}
	}
	return bodies, answers
}

// TestTemplates: with every template, a prompt begins with the previous one if only tool calls lie
// between them. After a user message, some templates remove the thinking of earlier turns; the
// table names them.
func TestTemplates(t *testing.T) {
	const turns, resumed = 12, 7
	bodies, answers := agentRequests(turns, resumed)
	c := newClient(t, Box)
	sent := make([]string, turns)
	for i, body := range bodies {
		sent[i] = c.send(body, answers[i])
		// The preset adds the member, see handler.
		sent[i] = strings.TrimSuffix(sent[i], "}") + `,"chat_template_kwargs":{"preserve_thinking":true}}`
	}
	for _, p := range templates {
		broken, before := 0, 0
		for i := 1; i < turns; i++ {
			for n, list := range [][]string{bodies, sent} {
				was, err := p.render(list[i-1])
				now, err2 := p.render(list[i])
				ok := err == nil && err2 == nil && strings.HasPrefix(now, was)
				switch {
				case ok:
				case n == 0:
					before++
				case i == resumed && p.strips && !p.preserves && err == nil && err2 == nil:
					broken++ // by the template's own rule
				default:
					t.Errorf("%s: turn %d (%v, %v)\n%s\ndoes not begin with\n%s", p.name, i, err, err2, now, was)
				}
			}
		}
		t.Logf("%s: %d of %d turns broken without the overlay, %d with it", p.name, before, turns-1, broken)
		if before == 0 {
			t.Errorf("%s: nothing to mend", p.name)
		}
	}
}
