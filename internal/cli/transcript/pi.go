// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// pi writes a line for each message. In newer versions id and parentId link the lines in a tree.
// After a rewind the conversation continues on another branch in the same file.

func knowsPi(start []byte) bool {
	line, _, _ := bytes.Cut(start, []byte("\n"))
	g := gjson.ParseBytes(line)
	return rawjson.ValidBytes(line) && g.Get("type").String() == "session" && g.Get("id").String() != "" &&
		g.Get("cwd").Exists()
}

type piFile struct {
	*builder
	model string
	after map[string][]*said // the messages after each line
	tip   string
}

func readPi(each records) []*Session {
	f := &piFile{builder: newBuilder(""), after: map[string][]*said{}}
	unknown := each(f.record)
	return []*Session{f.end(unknown)}
}

func (f *piFile) record(line gjson.Result) bool {
	id, parent := line.Get("id").String(), line.Get("parentId").String()
	kind := line.Get("type").String()
	if kind != "session" && id != "" {
		if branch, known := f.after[parent]; parent != f.tip && known && !f.on(branch) {
			f.part(branch...)
		}
		defer func() { f.tip, f.after[id] = id, f.now[:len(f.now):len(f.now)] }()
	}
	at := moment(line.Get("timestamp").String())
	switch kind {
	case "session":
		f.session.ID, f.session.Project, f.model = line.Get("id").String(), line.Get("cwd").String(),
			line.Get("modelId").String()
	case "message":
		return f.message(line.Get("message"), line)
	case "compaction":
		keep := f.kept(line.Get("firstKeptEntryId").String())
		f.part(append([]*said{{role: "user", blocks: text(line.Get("summary").String()), from: at, to: at}}, keep...)...)
	case "branch_summary":
		f.user(at, text(line.Get("summary").String())...)
	case "custom_message":
		f.user(at, piBlocks(line.Get("content"))...)
	case "model_change", "thinking_level_change", "custom", "label", "session_info":
	default:
		return false
	}
	return true
}

// on reports whether a branch ends like the current part.
func (f *piFile) on(branch []*said) bool {
	n := len(branch)
	return n == len(f.now) && (n == 0 || branch[n-1].origin() == f.now[n-1].origin())
}

// kept returns the messages from an entry on, which a compaction retains.
func (f *piFile) kept(first string) []*said {
	n := len(f.after[first])
	if n < 1 || n > len(f.now) {
		return nil
	}
	return f.now[n-1:]
}

func (f *piFile) message(m, line gjson.Result) bool {
	at := moment(line.Get("timestamp").String())
	switch m.Get("role").String() {
	case "user":
		f.user(at, piBlocks(m.Get("content"))...)
	case "assistant":
		if stop := m.Get("stopReason").String(); stop == "error" || stop == "aborted" {
			return true
		}
		u := m.Get("usage")
		usage := &Usage{
			Input: u.Get("input").Int(), Output: u.Get("output").Int(), Read: u.Get("cacheRead").Int(),
			Write: u.Get("cacheWrite").Int(),
		}
		if name := m.Get("model").String(); name != "" {
			f.model = name
		}
		// The time in the message is that of the request, in milliseconds.
		if sent := millis(m.Get("timestamp").Int()); !sent.IsZero() && sent.Before(at) && len(f.now) > 0 {
			f.now[len(f.now)-1].to = sent
		}
		f.answer("", at, f.model, usage, piBlocks(m.Get("content"))...)
	case "toolResult":
		f.user(at, resultBlock(m.Get("toolCallId").String(), content(m.Get("content")), m.Get("isError").Bool()))
	case "bashExecution":
		if !m.Get("excludeFromContext").Bool() {
			f.user(at, text("Ran `"+m.Get("command").String()+"`\n"+m.Get("output").String())...)
		}
	case "branchSummary", "compactionSummary":
		f.user(at, text(m.Get("summary").String())...)
	case "custom", "hookMessage":
		f.user(at, piBlocks(m.Get("content"))...)
	default:
		return false
	}
	return true
}

func piBlocks(c gjson.Result) []Block {
	if c.Type == gjson.String {
		return text(c.String())
	}
	var out []Block
	c.ForEach(func(_, b gjson.Result) bool {
		switch b.Get("type").String() {
		case "text":
			out = append(out, text(b.Get("text").String())...)
		case "thinking":
			out = append(out, thinkingBlock(b.Get("thinking").String(), signature(b.Get("thinkingSignature").String()))...)
		case "toolCall":
			out = append(out, callBlock(b.Get("id").String(), b.Get("name").String(), b.Get("arguments").Raw))
		case "image":
			out = append(out, imageBlock())
		}
		return true
	})
	return out
}

// signature returns a signature, or "" for other values.
func signature(s string) string {
	// pi stores a whole reasoning item, or the name of a member, in the place of a signature.
	if len(s) < 32 || s[0] == '{' {
		return ""
	}
	return s
}
