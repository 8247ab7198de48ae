// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"bytes"
	"time"

	"github.com/tidwall/gjson"
)

// Claude Code writes a line for each block of an answer, each result and each addition to a
// request; uuid and parentUuid link the lines in a tree. Records of sub-agents are marked
// isSidechain, in the same file or in one of their own.

func knowsClaudeCode(start []byte) bool {
	return bytes.Contains(start, []byte(`"sessionId":"`)) &&
		(bytes.Contains(start, []byte(`"parentUuid"`)) || bytes.Contains(start, []byte(`"leafUuid"`)) ||
			bytes.Contains(start, []byte(`"type":"file-history-snapshot"`)) ||
			bytes.Contains(start, []byte(`"type":"queue-operation"`)))
}

type claudeRecord struct {
	kind, subtype, uuid, parent, agent, session, cwd string
	at                                               time.Time
	message, attachment, rendered                    gjson.Result
	side, summary, failed, copied                    bool
}

func readClaudeRecord(line gjson.Result) (r claudeRecord) {
	line.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "type":
			r.kind = v.String()
		case "subtype":
			r.subtype = v.String()
		case "uuid":
			r.uuid = v.String()
		case "parentUuid":
			r.parent = v.String()
		case "agentId":
			r.agent = v.String()
		case "sessionId":
			r.session = v.String()
		case "cwd":
			r.cwd = v.String()
		case "timestamp":
			r.at = moment(v.String())
		case "message":
			r.message = v
		case "attachment":
			r.attachment = v
		case "rendered":
			r.rendered = v
		case "isSidechain":
			r.side = v.Bool()
		case "isCompactSummary":
			r.summary = v.Bool()
		case "isApiErrorMessage":
			r.failed = v.Bool()
		case "forkedFrom":
			r.copied = true
		}
		return true
	})
	return r
}

type claudeThread struct {
	*builder
	// after maps a record to the number of messages after its addition.
	after map[string]int
}

type claudeFile struct {
	main  *claudeThread
	sides map[string]*claudeThread
	order []*claudeThread
	// roots maps records without an agentId to their sub-agents.
	roots map[string]string
}

func readClaudeCode(each records) []*Session {
	f := &claudeFile{sides: map[string]*claudeThread{}, roots: map[string]string{}}
	f.main = f.thread("")
	unknown := each(f.record)
	out := make([]*Session, 0, len(f.order))
	for i, t := range f.order {
		if i > 0 {
			t.session.ID = f.main.session.ID + "/" + t.session.ID
			unknown = 0
		}
		if t.session.Project == "" {
			t.session.Project = f.main.session.Project
		}
		out = append(out, t.end(unknown))
	}
	return out
}

func (f *claudeFile) thread(id string) *claudeThread {
	t := &claudeThread{builder: newBuilder(id), after: map[string]int{}}
	f.order = append(f.order, t)
	return t
}

var claudeSilent = map[string]bool{
	"summary": true, "file-history-snapshot": true, "last-prompt": true, "permission-mode": true, "ai-title": true,
	"custom-title": true, "mode": true,
	"queue-operation": true, "cost-state": true, "tools-used": true, "atis-latch": true, "api-request": true,
	"api-request-shape": true,
	"api-request-blob":  true, "progress": true, "agent-name": true, "tag": true, "pr-link": true,
	"saved_hook_context": true, "last-model": true, "bridge-session": true,
}

func (f *claudeFile) record(line gjson.Result) bool {
	r := readClaudeRecord(line)
	if f.main.session.ID == "" {
		f.main.session.ID = r.session
	}
	if claudeSilent[r.kind] {
		return true
	}
	t := f.of(&r)
	if t.session.Project == "" {
		t.session.Project = r.cwd
	}
	switch r.kind {
	case "user":
		t.userRecord(&r)
	case "assistant":
		t.model(&r)
	case "attachment":
		t.user(r.at, claudeAttachment(&r)...)
	case "system":
		if r.subtype == "compact_boundary" {
			t.part()
		}
	default:
		return false
	}
	if r.uuid != "" {
		t.after[r.uuid] = len(t.now)
	}
	return true
}

func (f *claudeFile) of(r *claudeRecord) *claudeThread {
	if !r.side {
		return f.main
	}
	name := r.agent
	if name == "" {
		if name = f.roots[r.parent]; name == "" {
			name = r.uuid
		}
		f.roots[r.uuid] = name
	}
	t := f.sides[name]
	if t == nil {
		t = f.thread(name)
		f.sides[name] = t
	}
	return t
}

func (t *claudeThread) userRecord(r *claudeRecord) {
	blocks := claudeBlocks(r.message.Get("content"))
	if r.summary {
		if len(t.now) > 0 { // no compact_boundary line came before
			t.part()
		}
		t.user(r.at, blocks...)
		return
	}
	if len(blocks) > 0 && blocks[0].Type != "tool_result" {
		t.rewind(r.parent)
	}
	t.user(r.at, blocks...)
	if r.copied && len(t.now) > 0 {
		t.now[len(t.now)-1].copied = true
	}
}

// rewind starts another part if an answer came after the parent.
func (t *claudeThread) rewind(parent string) {
	n, known := t.after[parent]
	if !known || n >= len(t.now) {
		return
	}
	for _, m := range t.now[n:] {
		if m.role == "assistant" {
			t.part(t.now[:n]...)
			return
		}
	}
}

func (t *claudeThread) model(r *claudeRecord) {
	m := r.message
	name := m.Get("model").String()
	if r.failed || name == "<synthetic>" { // made by Claude Code itself
		return
	}
	var u *Usage
	if raw := m.Get("usage"); raw.Exists() {
		u = &Usage{
			Input: raw.Get("input_tokens").Int(), Output: raw.Get("output_tokens").Int(),
			Read: raw.Get("cache_read_input_tokens").Int(), Write: raw.Get("cache_creation_input_tokens").Int(),
		}
		u.CacheCreation.Short = raw.Get("cache_creation.ephemeral_5m_input_tokens").Int()
		u.CacheCreation.Long = raw.Get("cache_creation.ephemeral_1h_input_tokens").Int()
	}
	t.answer(m.Get("id").String(), r.at, name, u, claudeBlocks(m.Get("content"))...).copied = r.copied
}

func claudeBlocks(c gjson.Result) []Block {
	if c.Type == gjson.String {
		return text(c.String())
	}
	var out []Block
	c.ForEach(func(_, b gjson.Result) bool {
		switch b.Get("type").String() {
		case "text":
			out = append(out, text(b.Get("text").String())...)
		case "thinking":
			out = append(out, thinkingBlock(b.Get("thinking").String(), b.Get("signature").String())...)
		case "tool_use":
			out = append(out, callBlock(b.Get("id").String(), b.Get("name").String(), b.Get("input").Raw))
		case "tool_result":
			out = append(out, resultBlock(b.Get("tool_use_id").String(), content(b.Get("content")), b.Get("is_error").Bool()))
		case "image":
			out = append(out, imageBlock())
		case "document":
			out = append(out, textBlock("(a document)"))
		}
		return true
	})
	return out
}

// claudeAttachment returns Claude Code's own additions to a request, as far as they are recorded.
func claudeAttachment(r *claudeRecord) []Block {
	var out []Block
	// Newer versions record the additions as sent, older ones by kind.
	if r.rendered.IsArray() {
		for _, m := range r.rendered.Array() {
			out = append(out, claudeBlocks(m.Get("content"))...)
		}
		return out
	}
	a := r.attachment
	switch a.Get("type").String() {
	case "edited_text_file":
		return text("<system-reminder>\nNote: " + a.Get("filename").String() + " was modified.\n" +
			a.Get("snippet").String() + "\n</system-reminder>")
	case "file":
		return text("<system-reminder>\n" + a.Get("filename").String() + "\n" + a.Get("content.file.content").String() +
			"\n</system-reminder>")
	case "queued_command":
		return claudeBlocks(a.Get("prompt"))
	case "hook_additional_context":
		for _, s := range a.Get("content").Array() {
			out = append(out, text(s.String())...)
		}
	}
	return out
}
