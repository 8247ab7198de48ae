// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// tail is a place to append a text.
type tail struct {
	block, fresh int
	open         bool
}

// edit edits the messages one after another.
func (d *draft) edit(m matched, notes []note, add *note, next *conversation) {
	var to tail
	last := len(d.v.Messages) - 1
	next.notes = notes
	for i := d.leading; i <= last; i++ {
		at := i - d.leading
		msg := &d.v.Messages[i]
		switch {
		case msg.Role == wire.RoleSystem && d.q.Rules.SystemMessages:
			to = d.fold(i, to)
		case msg.Role == wire.RoleAssistant:
			d.normalize(i)
			d.exact(i, at, m, next)
			to = tail{}
		case msg.Role == wire.RoleSystem:
			to = tail{}
		default:
			d.normalize(i)
			to = d.end(i)
		}
		for _, n := range notes {
			// A note stays where it first stood, as a part of the prefix.
			if n.at == at {
				d.append(to, reminder(n.text))
			}
		}
		if i == last && add.text != "" && to.open {
			add.at = at
			d.append(to, reminder(add.text))
			next.notes = append(next.notes[:len(next.notes):len(next.notes)], *add)
		}
	}
}

func (d *draft) append(to tail, text string) {
	switch {
	case !to.open:
	case to.fresh > 0:
		d.fresh[to.fresh] = append(d.fresh[to.fresh], text)
	default:
		d.tails[to.block] = append(d.tails[to.block], text)
	}
}

func (d *draft) end(i int) tail {
	m := &d.v.Messages[i]
	for j := int(m.End) - 1; j >= int(m.First); j-- {
		b := &d.v.Blocks[j]
		if (b.Kind == wire.KindText || b.Kind == wire.KindToolResult) && !b.Body.Empty() &&
			strings.IndexByte(`"[`, d.body(j)[0]) >= 0 {
			return tail{block: j, open: true}
		}
	}
	return tail{}
}

// fold turns a system message into a reminder in the preceding message.
func (d *draft) fold(i int, to tail) tail {
	// Most system messages are token counters of earlier requests.
	if i < d.unchanged && d.messages[i].empty {
		d.gone[i] = true
		return to
	}
	m := &d.v.Messages[i]
	var texts []string
	for j := m.First; j < m.End; j++ {
		b := &d.v.Blocks[j]
		if b.Kind != wire.KindText {
			return tail{}
		}
		text := textOf(d.v.Bytes(b.Body))
		if strings.TrimSpace(text) == "" || d.q.Rules.TokenCounters && counter.MatchString(text) {
			continue
		}
		texts = append(texts, reminder(text))
	}
	switch {
	case i == 0:
		return tail{}
	case len(texts) == 0, to.open:
		d.gone[i], d.messages[i].empty = true, len(texts) == 0
		for _, t := range texts {
			d.append(to, t)
		}
		return to
	}
	// After an answer the system message becomes a user message: no user text precedes it, and the
	// following messages are not known when it is first sent.
	d.fresh[i] = texts
	return tail{fresh: i, open: true}
}

// normalize applies the rules for forms and token counters to a message.
func (d *draft) normalize(i int) {
	// These rules depend on nothing but the message.
	if i < d.unchanged && d.messages[i].plain {
		return
	}
	before := len(d.values) + len(d.cuts)
	d.form(i)
	if d.v.Messages[i].Role != wire.RoleAssistant {
		d.uncount(i)
	}
	d.messages[i].plain = i >= d.openTo() && len(d.values)+len(d.cuts) == before
}

// form writes a content of one text as a string.
func (d *draft) form(i int) {
	if !d.q.Rules.Forms {
		return
	}
	m := &d.v.Messages[i]
	seen := false
	for j := int(m.First); j < int(m.End); j++ {
		b := &d.v.Blocks[j]
		if b.Kind == wire.KindToolResult && !b.Body.Empty() && d.v.Raw[b.Body.Start] == '[' {
			if text, ok := d.loneText(b.Body); ok {
				d.values[j] = value{b.Body, text}
			}
			continue
		}
		if seen || b.Kind != wire.KindText || b.Has(wire.FlagString) || m.Content.Empty() || d.v.Raw[m.Content.Start] != '[' {
			continue
		}
		seen = true // one content, regardless of its number of blocks
		text, ok := d.loneText(m.Content)
		if !ok {
			continue
		}
		if v, ok := d.values[j]; ok { // pinned
			text = v.raw
		}
		d.values[j] = value{m.Content, text}
	}
}

func (d *draft) loneText(content rawjson.Span) ([]byte, bool) {
	var part gjson.Result
	n := 0
	gjson.ParseBytes(d.v.Bytes(content)).ForEach(func(_, v gjson.Result) bool {
		part, n = v, n+1
		return n == 1
	})
	if n != 1 {
		return nil, false
	}
	var text string
	ok := part.IsObject()
	part.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "type":
			ok = ok && v.Str == "text"
		case "text":
			text = v.Raw
		case "cache_control":
			// Without markers upstream, cache_control has no effect.
			ok = ok && !d.q.Markers
		default:
			ok = false
		}
		return ok
	})
	return []byte(text), ok && strings.HasPrefix(text, `"`)
}

func (d *draft) uncount(i int) {
	if !d.q.Rules.TokenCounters {
		return
	}
	m := &d.v.Messages[i]
	for j := int(m.First); j < int(m.End); j++ {
		b := &d.v.Blocks[j]
		if b.Kind != wire.KindText && b.Kind != wire.KindToolResult || b.Body.Empty() {
			continue
		}
		raw := d.body(j)
		if raw[0] != '"' || !bytes.Contains(raw, []byte("</total_tokens>")) { // cheap check: counters are rare
			continue
		}
		text := textOf(raw)
		without := withoutCounters(text)
		switch {
		case without == text:
		case without != "" || b.Kind == wire.KindToolResult:
			v, ok := d.values[j]
			if !ok {
				v.span = b.Body
			}
			d.values[j] = value{v.span, quote(without)}
		case j > int(m.First): // a separate element after another one
			d.cuts = append(d.cuts, wire.Cut{Start: d.v.Blocks[j-1].Span.End, End: b.Span.End})
			delete(d.values, j)
			if !d.ownsBlocks { // the parser's list is reused for the next request
				d.v.Blocks, d.ownsBlocks = slices.Clone(d.v.Blocks), true
			}
			d.v.Blocks[j].Body = rawjson.Span{}
		}
	}
}
