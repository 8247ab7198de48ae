// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// draft is an overlay in the making: what becomes of the values of blocks, and
// what is appended to them.
type draft struct {
	v     *wire.View
	q     Request
	front int // system messages in front of all others (openai_chat)

	values map[int]value    // by block
	tails  map[int][]string // by block
	fresh  map[int][]string // messages that become one of the user with these texts
	gone   map[int]bool     // messages that are left out
	cuts   []wire.Cut
	own    bool // the view's list of blocks is the draft's own
}

// value is a JSON value that takes the place of a span.
type value struct {
	span rawjson.Span
	raw  []byte
}

func newDraft(v *wire.View, q Request) *draft {
	d := &draft{v: v, q: q, values: map[int]value{}, tails: map[int][]string{}, fresh: map[int][]string{}, gone: map[int]bool{}}
	if v.Traits().SystemInMessages {
		for d.front < len(v.Messages)-1 && v.Messages[d.front].Role == wire.RoleSystem {
			d.front++
		}
	}
	return d
}

// sizeOfPrefix is what tools and system prompt take, in bytes.
func (d *draft) sizeOfPrefix() (n int) {
	for i := range d.v.Blocks[:d.v.System] {
		n += d.v.Blocks[i].Span.Len()
	}
	for i := range d.v.Messages[:d.front] {
		n += d.v.Messages[i].Span.Len()
	}
	return n
}

// plan fills in what the conversation will be, and the cuts.
func (d *draft) plan(share func(*base) *base, m matched, next *lineage) error {
	if !d.v.Traits().MessageList {
		next.base = &base{}
		return nil
	}
	now, ok := toolsOf(d.v)
	if !ok {
		now = nil
	}
	system := d.system()
	var before, beforeFirst []pin
	if m.lineage != nil {
		before, beforeFirst = m.lineage.base.system, m.lineage.first
	}
	front, first := d.pins(system, before), d.pins(d.opening(), beforeFirst)
	next.base = nil
	var notes []note
	if m.lineage != nil {
		if d.aligned(m.lineage.base.system, front) {
			next.base = m.lineage.base
		}
		for _, n := range m.lineage.notes {
			if n.at < m.common && next.base != nil {
				notes = append(notes, n)
			}
		}
	}
	var known []tool
	if next.base == nil {
		next.base = share(&base{system: clonePins(front), tools: keep(now, nil)})
		known = next.base.tools
	} else {
		known = m.lineage.tools
	}
	next.first = d.pinFirst(m, first)
	var add note
	if d.q.Rules.Pins {
		d.pinned(next, system, front, first, notes, &add)
	}
	if ok && d.v.Tools > 0 {
		d.tools(known, now, notes, m, next, &add)
	}
	d.messages(m, notes, &add, next)
	return d.build()
}

// system returns the blocks of the system prompt, without the billing line's.
func (d *draft) system() []int {
	var all []int
	from, to := d.v.Tools, d.v.System
	if d.front > 0 {
		from, to = int(d.v.Messages[0].First), int(d.v.Messages[d.front-1].End)
	}
	for i := from; i < to; i++ {
		b := &d.v.Blocks[i]
		if b.Kind != wire.KindText || b.Body.Empty() {
			continue
		}
		if d.q.Rules.BillingLine && bytes.HasPrefix(d.v.Bytes(b.Body), []byte(`"`+wire.AttributionLine)) && d.unbill(i, from, to) {
			continue
		}
		all = append(all, i)
	}
	return all
}

// unbill takes the billing line out, and reports whether nothing is left of its block.
func (d *draft) unbill(i, from, to int) bool {
	b := &d.v.Blocks[i]
	if _, rest, ok := strings.Cut(textOf(d.v.Bytes(b.Body)), "\n"); ok && strings.TrimSpace(rest) != "" {
		d.values[i] = value{b.Body, quote(strings.TrimLeft(rest, "\n"))}
		return false
	}
	if b.Has(wire.FlagString) || d.front > 0 {
		return false // it is all there is
	}
	switch {
	case i+1 < to:
		d.cuts = append(d.cuts, wire.Cut{Start: b.Span.Start, End: d.v.Blocks[i+1].Span.Start})
	case i > from:
		d.cuts = append(d.cuts, wire.Cut{Start: d.v.Blocks[i-1].Span.End, End: b.Span.End})
	default:
		return false
	}
	return true
}

// opening returns the texts of the first message, if a person's.
func (d *draft) opening() (all []int) {
	m := &d.v.Messages[d.front]
	for i := int(m.First); i < int(m.End) && m.Role == wire.RoleUser; i++ {
		if d.v.Blocks[i].Kind == wire.KindText {
			all = append(all, i)
		}
	}
	return all
}

// body returns the value of a block as it stands in the draft.
func (d *draft) body(i int) []byte {
	if v, ok := d.values[i]; ok {
		return v.raw
	}
	return d.v.Bytes(d.v.Blocks[i].Body)
}

// pins are the texts of blocks, most of which are as they were before.
func (d *draft) pins(blocks []int, before []pin) []pin {
	all := make([]pin, 0, len(blocks))
	for n, i := range blocks {
		raw := d.body(i)
		switch {
		case n < len(before) && bytes.Equal(raw, before[n].raw):
			all = append(all, pin{before[n].hash, raw})
		case len(raw) > mostSurveyed:
			all = append(all, pin{d.v.Blocks[i].Hash, raw})
		default:
			sum := sha256.Sum256([]byte(textOf(raw)))
			all = append(all, pin{wire.Hash(sum[:len(wire.Hash{})]), raw})
		}
	}
	return all
}

func samePin(a, b pin) bool { return a.hash == b.hash }

func clonePins(all []pin) []pin {
	all = slices.Clone(all)
	for i := range all {
		all[i].raw = bytes.Clone(all[i].raw)
	}
	return all
}

// aligned reports whether texts say what is pinned, but for the surroundings.
func (d *draft) aligned(pinned, now []pin) bool {
	return slices.EqualFunc(pinned, now, func(a, b pin) bool {
		if a.hash == b.hash {
			return true
		}
		if !d.q.Rules.Pins || max(len(a.raw), len(b.raw)) > mostSurveyed {
			return false
		}
		was, _ := survey(textOf(a.raw), false)
		is, _ := survey(textOf(b.raw), false)
		return was == is
	})
}

// pinFirst returns the first message's texts as they first stood.
func (d *draft) pinFirst(m matched, now []pin) []pin {
	if m.common > 0 && len(m.lineage.first) == len(now) {
		return m.lineage.first
	}
	return clonePins(now)
}

// places returns what pins say of the surroundings.
func places(system, first []pin) (all []string) {
	for i, pins := range [][]pin{system, first} {
		for _, p := range pins {
			if len(p.raw) > mostSurveyed {
				continue
			}
			_, some := survey(textOf(p.raw), i == 1)
			all = append(all, some...)
		}
	}
	return all
}

// pinned puts the texts back as they first stood, and notes what they now say of
// the surroundings, which is to be told instead.
func (d *draft) pinned(next *lineage, system []int, front, first []pin, notes []note, add *note) {
	for j, i := range system {
		d.pin(i, next.base.system[j])
	}
	for j, i := range d.opening() {
		d.pin(i, next.first[j])
	}
	var told []string
	for _, n := range notes {
		if n.told != nil {
			told = n.told
		}
	}
	if told == nil && slices.EqualFunc(front, next.base.system, samePin) && slices.EqualFunc(first, next.first, samePin) {
		return
	}
	now := places(front, first)
	if told == nil {
		told = places(next.base.system, next.first)
	}
	if slices.Equal(now, told) {
		return
	}
	var changed []string
	for i, place := range now {
		if i >= len(told) || told[i] != place {
			changed = append(changed, strings.Trim(place, "\n"))
		}
	}
	add.told = now
	add.text = "What this conversation began with no longer holds. It is now:\n\n" + strings.Join(changed, "\n\n")
}

// pin puts one text back. A block without a text has none to put back, and no place for one.
func (d *draft) pin(i int, p pin) {
	if len(p.raw) == 0 || d.v.Blocks[i].Body.Empty() {
		return
	}
	if !bytes.Equal(d.body(i), p.raw) {
		d.values[i] = value{d.v.Blocks[i].Body, p.raw}
	}
}

// tools puts the tools in front in their order, and describes those that are to
// be told near the end.
func (d *draft) tools(known, now []tool, notes []note, m matched, next *lineage, add *note) {
	front := now
	if d.q.Rules.ToolOrder {
		var added []tool
		front, added = arrange(known, now)
		if d.q.Rules.LateTools && m.common > 0 && !bytes.Contains(d.v.Bytes(d.v.Reply.ToolChoice), []byte(`"name"`)) {
			added = d.late(added, notes, add)
		}
		front = append(front, added...)
		list := make([][]byte, len(front))
		for i := range front {
			list[i] = front[i].raw
		}
		span := rawjson.Span{Start: d.v.Blocks[0].Span.Start, End: d.v.Blocks[d.v.Tools-1].Span.End}
		if raw := bytes.Join(list, []byte{','}); !bytes.Equal(raw, d.v.Bytes(span)) {
			d.cuts = append(d.cuts, wire.Cut{Start: span.Start, End: span.End, With: raw})
		}
	}
	next.tools = keep(front, known)
}

// late notes the tools that have not been described yet, and returns those that
// cannot be told.
func (d *draft) late(added []tool, notes []note, add *note) (rest []tool) {
	described := make(map[wire.Hash]struct{})
	for i := range notes {
		for _, h := range notes[i].tools {
			described[h] = struct{}{}
		}
	}
	var list []string
	for _, t := range added {
		if _, ok := described[t.hash]; ok {
			continue
		}
		if !d.listening() {
			return added
		}
		add.tools = append(add.tools, t.hash)
		list = append(list, string(t.raw))
	}
	if len(list) == 0 {
		return nil
	}
	if add.text != "" {
		add.text += "\n\n"
	}
	add.text += "From here on these tools can be called, too, just as those at the beginning:\n<tools>\n" + strings.Join(list, "\n") + "\n</tools>"
	return nil
}

// listening reports whether the last message is one that can take a note.
func (d *draft) listening() bool {
	m := d.v.Messages[len(d.v.Messages)-1]
	return m.Role != wire.RoleAssistant && m.End > m.First
}

// build turns values and tails into cuts.
func (d *draft) build() error {
	for i, tails := range d.tails {
		v, ok := d.values[i]
		if !ok {
			v = value{d.v.Blocks[i].Body, d.v.Bytes(d.v.Blocks[i].Body)}
		}
		for _, t := range tails {
			v.raw = appendText(v.raw, t)
		}
		d.values[i] = v
	}
	for _, v := range d.values {
		d.cuts = append(d.cuts, wire.Cut{Start: v.span.Start, End: v.span.End, With: v.raw})
	}
	for i, texts := range d.fresh {
		m := d.v.Messages[i].Span
		raw := append(append([]byte(`{"role":"user","content":`), quote(strings.Join(texts, "\n\n"))...), '}')
		d.cuts = append(d.cuts, wire.Cut{Start: m.Start, End: m.End, With: raw})
	}
	for i := range d.gone {
		d.cuts = append(d.cuts, wire.Cut{Start: d.v.Messages[i-1].Span.End, End: d.v.Messages[i].Span.End})
	}
	return nil
}

// appendText returns a content, a string or an array of parts, with a text behind it.
func appendText(raw []byte, text string) []byte {
	if raw[0] == '[' {
		end := bytes.LastIndexByte(raw, ']')
		out := append([]byte(nil), raw[:end]...)
		if gjson.ParseBytes(raw).Get("#").Int() > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"type":"text","text":`...)
		out = append(out, quote(text)...)
		return append(out, "}]"...)
	}
	out := append([]byte(nil), raw[:len(raw)-1]...)
	if len(raw) > 2 {
		out = append(out, `\n\n`...)
	}
	return append(out, quote(text)[1:]...)
}

// quote returns a text as a JSON string, as clients write it.
func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings always encode
	return bytes.TrimRight(b.Bytes(), "\n")
}
