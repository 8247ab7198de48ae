// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Gemini CLI stores a chat as one JSON document in older versions, and as lines in newer ones.
// There a line replaces an earlier line with the same id.

func isGeminiChat(path string) bool {
	ext := filepath.Ext(path)
	return filepath.Base(filepath.Dir(path)) == "chats" && (ext == ".json" || ext == ".jsonl")
}

func knowsGemini(start []byte) bool {
	return bytes.Contains(start, []byte(`"sessionId"`)) && bytes.Contains(start, []byte(`"projectHash"`))
}

// geminiFile collects the last version of each message, in the order of the first versions.
type geminiFile struct {
	head  gjson.Result
	order []string
	last  map[string]gjson.Result
}

func readGemini(s Source) ([]*Session, error) {
	f := &geminiFile{last: map[string]gjson.Result{}}
	unknown := 0
	if jsonLines(s.Path) {
		file, err := os.Open(s.Path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if unknown, err = lines(file, f.line); err != nil {
			return nil, err
		}
	} else {
		whole, err := os.ReadFile(s.Path)
		if err != nil {
			return nil, err
		}
		if !rawjson.ValidBytes(whole) {
			unknown++
		}
		f.line(gjson.ParseBytes(whole))
	}
	b := newBuilder(f.head.Get("sessionId").String())
	b.session.Project = geminiProject(s.Path)
	for _, id := range f.order {
		if !b.gemini(f.last[id]) {
			unknown++
		}
	}
	return []*Session{b.end(unknown)}, nil
}

func (f *geminiFile) line(o gjson.Result) bool {
	if set := o.Get("$set"); set.Exists() {
		set.Get("messages").ForEach(func(_, m gjson.Result) bool {
			f.put(m)
			return true
		})
		return true
	}
	if back := o.Get("$rewindTo"); back.Exists() {
		return true
	}
	if !o.Get("type").Exists() {
		f.head = o
		o.Get("messages").ForEach(func(_, m gjson.Result) bool {
			f.put(m)
			return true
		})
		return o.Get("sessionId").Exists()
	}
	f.put(o)
	return true
}

func (f *geminiFile) put(m gjson.Result) {
	id := m.Get("id").String()
	if _, known := f.last[id]; !known {
		f.order = append(f.order, id)
	}
	f.last[id] = m
}

func (b *builder) gemini(m gjson.Result) bool {
	at := moment(m.Get("timestamp").String())
	switch m.Get("type").String() {
	case "user":
		b.user(at, geminiParts(m.Get("content"))...)
	case "gemini":
		t := m.Get("tokens")
		read := t.Get("cached").Int()
		usage := &Usage{
			Input: max(0, t.Get("input").Int()-read), Output: t.Get("output").Int() + t.Get("thoughts").Int(),
			Read: read,
		}
		all := m.Get("thoughts").Array()
		thoughts := make([]string, 0, len(all))
		for _, th := range all {
			thoughts = append(thoughts, th.Get("description").String())
		}
		blocks := append(thinkingBlock(strings.Join(thoughts, "\n"), ""), geminiParts(m.Get("content"))...)
		var results []Block
		m.Get("toolCalls").ForEach(func(_, c gjson.Result) bool {
			blocks = append(blocks, callBlock(c.Get("id").String(), c.Get("name").String(), c.Get("args").Raw))
			c.Get("result").ForEach(func(_, part gjson.Result) bool {
				results = append(results, geminiPart(part)...)
				return true
			})
			return true
		})
		b.answer(m.Get("id").String(), at, m.Get("model").String(), usage, blocks...)
		b.user(at, results...)
	case "info", "error", "warning":
	default:
		return false
	}
	return true
}

func geminiParts(c gjson.Result) []Block {
	if c.Type == gjson.String {
		return text(c.String())
	}
	var out []Block
	c.ForEach(func(_, part gjson.Result) bool {
		out = append(out, geminiPart(part)...)
		return true
	})
	return out
}

func geminiPart(part gjson.Result) []Block {
	if r := part.Get("functionResponse"); r.Exists() {
		said := r.Get("response.output")
		if !said.Exists() {
			said = r.Get("response")
		}
		return []Block{resultBlock(r.Get("id").String(), content(said), r.Get("response.error").Exists())}
	}
	if part.Get("inlineData").Exists() {
		return []Block{imageBlock()}
	}
	return text(part.Get("text").String())
}

// geminiProject returns the project folder, which is recorded beside a chat's folder.
func geminiProject(path string) string {
	root, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(path)), ".project_root"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(root))
}
