// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"bytes"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Codex writes the items of the Responses API one by one, and the usage after each answer.

func isRollout(path string) bool {
	return strings.HasPrefix(filepath.Base(path), "rollout-") && jsonLines(path)
}

func knowsCodex(start []byte) bool { return bytes.Contains(start, []byte(`"type":"session_meta"`)) }

type codexFile struct {
	*builder
	model string
	// forked is the creation of a conversation that continues another one. Its copy of the other
	// conversation is written at once.
	forked time.Time
	// answering is set from the first item of an answer until another item.
	answering bool
	// late is an answer without usage so far.
	late *said
}

// copying bounds the time in which Codex writes the copy of another conversation.
const copying = time.Second

func readCodex(each records) []*Session {
	f := &codexFile{builder: newBuilder("")}
	unknown := each(f.record)
	return []*Session{f.end(unknown)}
}

func (f *codexFile) record(line gjson.Result) bool {
	at, p := moment(line.Get("timestamp").String()), line.Get("payload")
	switch line.Get("type").String() {
	case "session_meta":
		f.meta(p, at)
	case "turn_context":
		if m := p.Get("model").String(); m != "" {
			f.model = m
		}
		if f.session.Project == "" {
			f.session.Project = p.Get("cwd").String()
		}
	case "response_item":
		return f.item(p, at)
	case "token_usage_record":
		f.billed(p.Get("usage"))
	case "event_msg":
		if p.Get("type").String() == "token_count" {
			f.billed(p.Get("info.last_token_usage"))
		}
	case "compacted":
		f.compacted(p, at)
	case "world_state", "ghost_snapshot":
	default:
		return false
	}
	return true
}

func (f *codexFile) meta(p gjson.Result, at time.Time) {
	if f.session.ID != "" {
		return // this one belongs to the original conversation
	}
	f.session.ID, f.session.Project = p.Get("id").String(), p.Get("cwd").String()
	if m := p.Get("model").String(); m != "" {
		f.model = m
	}
	if p.Get("forked_from_id").String() != "" {
		f.forked = at
	}
}

func (f *codexFile) billed(u gjson.Result) {
	if f.late == nil || !u.Exists() {
		return
	}
	// OpenAI counts cache reads and writes within the input.
	read, write := u.Get("cached_input_tokens").Int(), u.Get("cache_write_input_tokens").Int()
	f.late.usage = &Usage{
		Input: max(0, u.Get("input_tokens").Int()-read-write), Output: u.Get("output_tokens").Int(),
		Read: read, Write: write,
	}
	f.late = nil
}

func (f *codexFile) item(p gjson.Result, at time.Time) bool {
	switch p.Get("type").String() {
	case "message":
		blocks := codexText(p.Get("content"))
		if p.Get("role").String() == "assistant" {
			f.said(at, blocks...)
		} else {
			f.userMessage(at, blocks...)
		}
	case "reasoning":
		texts := p.Get("summary").Array()
		summary := make([]string, 0, len(texts))
		for _, s := range texts {
			summary = append(summary, s.Get("text").String())
		}
		f.said(at, thinkingBlock(strings.Join(summary, "\n\n"), "")...)
	case "function_call", "custom_tool_call":
		input := p.Get("arguments").String()
		if input == "" {
			input = p.Get("input").String()
		}
		f.said(at, callBlock(p.Get("call_id").String(), p.Get("name").String(), input))
	case "local_shell_call":
		f.said(at, callBlock(p.Get("call_id").String(), "local_shell", p.Get("action").Raw))
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output":
		output := p.Get("output")
		if output.IsObject() {
			output = output.Get("content")
		}
		f.userMessage(at, resultBlock(p.Get("call_id").String(), content(output), false))
	case "additional_tools", "web_search_call", "ghost_snapshot", "compaction", "compaction_summary", "compaction_trigger":
	default:
		return false
	}
	return true
}

func (f *codexFile) userMessage(at time.Time, blocks ...Block) {
	f.answering = false
	f.user(at, blocks...)
}

func (f *codexFile) said(at time.Time, blocks ...Block) {
	if len(blocks) == 0 {
		return
	}
	m := f.answer("", at, f.model, nil, blocks...)
	if !f.answering {
		m.copied = !f.forked.IsZero() && at.Sub(f.forked) < copying
	}
	f.answering, f.late = true, m
}

// compacted starts another part with the history that Codex retains, or with its summary.
func (f *codexFile) compacted(p gjson.Result, at time.Time) {
	f.part()
	f.answering, f.late = false, nil
	history := p.Get("replacement_history")
	if !history.IsArray() {
		f.userMessage(at, text(p.Get("message").String())...)
		return
	}
	history.ForEach(func(_, item gjson.Result) bool {
		f.item(item, at)
		return true
	})
	for _, m := range f.now {
		m.copied = true
	}
	f.answering, f.late = false, nil
}

func codexText(c gjson.Result) []Block {
	if c.Type == gjson.String {
		return text(c.String())
	}
	var out []Block
	c.ForEach(func(_, part gjson.Result) bool {
		if part.Get("type").String() == "input_image" {
			out = append(out, imageBlock())
		} else {
			out = append(out, text(part.Get("text").String())...)
		}
		return true
	})
	return out
}
