// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"regexp"
	"slices"
	"strings"
)

var (
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	callID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

// names checks that tools have unique and valid names, and that the chosen tool exists.
func (f *findings) names(path string, names []string, chosen string) {
	seen := map[string]bool{}
	for _, name := range names {
		if !toolName.MatchString(name) {
			f.add(path, "has a name that is none: %q", name)
		}
		if seen[name] {
			f.add(path, "has two of one name")
		}
		seen[name] = true
	}
	if chosen != "" && !seen[chosen] {
		f.add(path, "lacks the one that is chosen")
	}
}

// turns tracks roles and calls across messages, in all formats.
type turns struct {
	*findings
	path  string
	roles []string
	open  []string // calls without a result so far
	ids   map[string]bool
	// partial says that the server has the earlier history.
	partial bool
}

// role begins a message.
func (t *turns) role(role string) {
	if len(t.roles) > 0 && t.roles[len(t.roles)-1] == role {
		t.add(t.path, "has two of role %s on end", role)
	}
	t.roles = append(t.roles, role)
}

// call opens a call.
func (t *turns) call(id string) {
	if t.ids[id] {
		t.add(t.path, "has two calls of one id")
	}
	t.ids[id] = true
	t.open = append(t.open, id)
}

// result closes a call.
func (t *turns) result(id string) {
	i := slices.Index(t.open, id)
	if i < 0 {
		t.add(t.path, "has a result without an open call")
		return
	}
	t.open = slices.Delete(t.open, i, i+1)
}

// closed checks that no call is open.
func (t *turns) closed() {
	if len(t.open) > 0 {
		t.add(t.path, "has a call without a result")
		t.open = nil
	}
}

// ordered checks that the conversation is not empty and begins with the user.
func (t *turns) ordered(first string) {
	t.closed()
	if len(t.roles) == 0 {
		t.add(t.path, "is empty")
	} else if t.roles[0] != first {
		t.add(t.path, "begins with role %s", t.roles[0])
	}
}

func (f *findings) anthropicRequest(v *Value) {
	var names []string
	for _, tool := range v.List("tools") {
		if tool.Has("name") {
			names = append(names, tool.String("name"))
		}
	}
	chosen := v.String("tool_choice", "name")
	f.names("tools", names, chosen)
	if v.Has("tool_choice") && len(v.List("tools")) == 0 && v.String("thread", "type") != "continue" {
		f.add("tool_choice", "has nothing to choose from")
	}
	if v.Has("tools") && len(v.List("tools")) == 0 {
		f.add("tools", "is empty")
	}
	if n := marks(v); n > 4 {
		f.add("", "has more than 4 cache_control")
	}
	f.thinking(v)
	t := &turns{findings: f, path: "messages", ids: map[string]bool{}}
	t.partial = v.String("thread", "type") == "continue"
	for _, m := range v.List("messages") {
		role := m.String("role")
		if role == "system" {
			f.blocks("messages[].content", m.Get("content"))
			continue // allowed between turns
		}
		t.role(role)
		f.blocks("messages[].content", m.Get("content"))
		t.anthropicMessage(role, m)
	}
	if system := v.Get("system"); system != nil {
		f.blocks("system", system)
	}
	if !t.partial {
		t.ordered("user")
	}
}

func (t *turns) anthropicMessage(role string, m *Value) {
	blocks := m.List("content")
	if role == "assistant" {
		t.closed()
		for _, b := range blocks {
			if b.String("type") != "tool_use" {
				continue
			}
			if id := b.String("id"); !callID.MatchString(id) {
				t.add("messages[].content[].id", "is none: %q", id)
			}
			t.call(b.String("id"))
		}
		return
	}
	other := false
	for _, b := range blocks {
		if b.String("type") != "tool_result" {
			other = true
			continue
		}
		if other {
			t.add("messages[].content", "has a result behind something else")
		}
		if !t.partial {
			t.result(b.String("tool_use_id"))
		}
	}
	t.closed()
}

// blocks checks for empty contents and texts.
func (f *findings) blocks(path string, content *Value) {
	switch {
	case content == nil:
	case content.Kind == String && content.Text == "", content.Kind == Array && len(content.Elements) == 0:
		f.add(path, "is empty")
	}
	if content == nil {
		return
	}
	for _, b := range content.Elements {
		if b.String("type") == "text" && strings.TrimSpace(b.String("text")) == "" {
			f.add(path, "has an empty text")
		}
		if b.Has("cache_control") && strings.HasSuffix(b.String("type"), "thinking") {
			f.add(path, "has a cache_control at thinking")
		}
	}
}

// thinking checks the budget, and options incompatible with thinking.
func (f *findings) thinking(v *Value) {
	if v.String("thinking", "type") != "enabled" {
		return
	}
	budget, bound := v.Get("thinking", "budget_tokens"), v.Get("max_tokens")
	if budget != nil && bound != nil && number(budget) >= number(bound) {
		f.add("thinking.budget_tokens", "is not less than max_tokens")
	}
	if budget != nil && number(budget) < 1024 {
		f.add("thinking.budget_tokens", "is less than 1024")
	}
	if choice := v.String("tool_choice", "type"); choice == "any" || choice == "tool" {
		f.add("tool_choice", "forces a call in spite of thinking")
	}
}

// marks counts the cache markers, without members of that name in a tool's input.
func marks(v *Value) (n int) {
	for _, list := range []*Value{v.Get("tools"), v.Get("system")} {
		if list == nil {
			continue
		}
		for _, e := range list.Elements {
			if e.Has("cache_control") {
				n++
			}
		}
	}
	for _, m := range v.List("messages") {
		for _, b := range m.List("content") {
			if b.Has("cache_control") {
				n++
			}
			for _, inner := range b.List("content") {
				if inner.Has("cache_control") {
					n++
				}
			}
		}
	}
	return n
}

func (f *findings) chatRequest(v *Value) {
	var names []string
	for _, tool := range v.List("tools") {
		if name := tool.String("function", "name") + tool.String("custom", "name"); name != "" {
			names = append(names, name)
		}
	}
	f.names("tools", names, v.String("tool_choice", "function", "name"))
	if v.Has("tools") && len(v.List("tools")) == 0 {
		f.add("tools", "is empty")
	}
	for _, member := range []string{"tool_choice", "parallel_tool_calls"} {
		if v.Has(member) && !v.Has("tools") {
			f.add(member, "stands without tools")
		}
	}
	if stream := v.Get("stream"); v.Has("stream_options") && (stream == nil || !stream.True) {
		f.add("stream_options", "stands without a stream")
	}
	t := &turns{findings: f, path: "messages", ids: map[string]bool{}}
	for _, m := range v.List("messages") {
		t.chatMessage(m)
	}
	t.ordered("user")
}

func (t *turns) chatMessage(m *Value) {
	role := m.String("role")
	if role != "tool" && !m.Has("tool_calls") { // messages with calls may have no content
		t.blocks("messages[].content", m.Get("content"))
	}
	switch role {
	case "system", "developer":
		return
	case "tool":
		t.result(m.String("tool_call_id"))
		if len(t.roles) > 0 && t.roles[len(t.roles)-1] != "tool" {
			t.roles = append(t.roles, "tool")
		}
		return
	}
	t.closed()
	t.role(role)
	if role != "assistant" {
		return
	}
	calls := m.List("tool_calls")
	if m.Has("tool_calls") && len(calls) == 0 {
		t.add("messages[].tool_calls", "is empty")
	}
	if !m.Has("content") && len(calls) == 0 && !m.Has("refusal") {
		t.add("messages[]", "of the assistant has neither content nor calls")
	}
	for _, c := range calls {
		t.call(c.String("id"))
		t.arguments("messages[].tool_calls[].function.arguments", c.Get("function", "arguments"))
	}
}

// arguments checks that a string contains a JSON object.
func (f *findings) arguments(path string, v *Value) {
	if v == nil || v.Kind != String {
		return // its shape is reported elsewhere, or it is another kind of call
	}
	if inner, err := Parse([]byte(v.Text)); err != nil || inner.Kind != Object {
		f.add(path, "holds no JSON object")
	}
}

func (f *findings) responsesRequest(v *Value) {
	var names []string
	for _, tool := range v.List("tools") {
		if t := tool.String("type"); t == "function" || t == "custom" {
			names = append(names, tool.String("name"))
		}
	}
	chosen := ""
	if choice := v.String("tool_choice", "type"); choice == "function" || choice == "custom" {
		chosen = v.String("tool_choice", "name")
	}
	f.names("tools", names, chosen)
	input := v.Get("input")
	if input == nil || input.Kind != Array {
		if input == nil || input.Text == "" {
			f.add("input", "is empty")
		}
		return
	}
	t := &turns{findings: f, path: "input", ids: map[string]bool{}}
	t.partial = v.Has("previous_response_id") || v.Has("conversation")
	items := map[string]bool{}
	for _, item := range input.Elements {
		if id := item.String("id"); id != "" {
			if items[id] {
				f.add("input", "has two items of one id")
			}
			items[id] = true
		}
		t.responsesItem(item)
	}
	if len(input.Elements) == 0 {
		f.add("input", "is empty")
	}
	t.closed()
}

func (t *turns) responsesItem(item *Value) {
	switch item.String("type") {
	case "function_call":
		t.arguments("input[].arguments", item.Get("arguments"))
		t.call(item.String("call_id"))
	case "custom_tool_call":
		t.call(item.String("call_id"))
	case "function_call_output", "custom_tool_call_output":
		if !t.partial {
			t.result(item.String("call_id"))
		}
	case "", "message":
		if item.String("role") != "assistant" {
			t.closed()
		}
		t.blocks("input[].content", item.Get("content"))
		if role := item.String("role"); role == "user" || role == "assistant" {
			t.roles = append(t.roles, role)
		}
	}
}

func (f *findings) geminiRequest(v *Value) {
	var names []string
	for _, tool := range v.List("tools") {
		if tool.Has("functionDeclarations") && len(tool.List("functionDeclarations")) == 0 {
			f.add("tools[].functionDeclarations", "is empty")
		}
		for _, d := range tool.List("functionDeclarations") {
			names = append(names, d.String("name"))
			if d.Has("parameters") && d.Has("parametersJsonSchema") {
				f.add("tools[].functionDeclarations[]", "has two schemas")
			}
		}
	}
	f.names("tools", names, "")
	t := &turns{findings: f, path: "contents", ids: map[string]bool{}}
	for _, content := range v.List("contents") {
		t.geminiContent(content)
	}
	t.ordered("user")
}

// geminiContent checks that the next content holds the results of all calls, matched by id, or by
// name for calls without ids.
func (t *turns) geminiContent(content *Value) {
	role := content.String("role")
	if role == "" {
		role = "user"
	}
	goesOn := len(t.roles) > 0 && t.roles[len(t.roles)-1] == role
	t.role(role)
	parts := content.List("parts")
	if len(parts) == 0 {
		t.add("contents[].parts", "is empty")
	}
	if role == "model" && !goesOn {
		t.closed()
	}
	for _, p := range parts {
		t.part("contents[].parts[]", p)
		if p.Has("functionCall") && role == "model" {
			if id := p.String("functionCall", "id"); id != "" {
				t.call(id)
			} else {
				t.open = append(t.open, "name "+p.String("functionCall", "name"))
			}
		}
		if p.Has("functionResponse") {
			id := p.String("functionResponse", "id")
			if id == "" || !slices.Contains(t.open, id) {
				id = "name " + p.String("functionResponse", "name")
			}
			t.result(id)
		}
	}
	if role != "model" {
		t.closed()
	}
}

// part checks that a part holds exactly one kind of content.
func (f *findings) part(path string, p *Value) {
	n := 0
	for _, member := range []string{
		"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode",
		"codeExecutionResult", "toolCall", "toolResponse",
	} {
		if p.Has(member) {
			n++
		}
	}
	if n != 1 {
		f.add(path, "holds %d things", n)
	}
}
