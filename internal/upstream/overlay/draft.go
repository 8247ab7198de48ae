// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// draft is an overlay under construction.
type draft struct {
	v       *wire.View
	q       Request
	leading int // number of leading system messages (openai_chat)

	values     map[int]value    // by block
	tails      map[int][]string // by block
	fresh      map[int][]string // messages to replace by a user message with these texts
	gone       map[int]bool     // messages to remove
	cuts       []wire.Cut
	ownsBlocks bool // the draft owns the view's list of blocks

	before []*conversation // the session's conversations
	first  []pin           // texts of the opening user messages

	messages []clientMessage
	// unchanged is the number of leading messages that the conversation same has sent before, in the same bytes and
	// under the same rules. It is 0 unless these have an answer.
	unchanged int
	same      *conversation
}

// value is a JSON value that replaces a span.
type value struct {
	span rawjson.Span
	raw  []byte
}

func newDraft(v *wire.View, q Request, before []*conversation) *draft {
	d := &draft{
		v: v, q: q, before: before, values: map[int]value{}, tails: map[int][]string{}, fresh: map[int][]string{},
		gone: map[int]bool{},
	}
	if v.Traits().SystemInMessages {
		for d.leading < len(v.Messages)-1 && v.Messages[d.leading].Role == wire.RoleSystem {
			d.leading++
		}
	}
	d.first = d.pins(d.opening(), true)
	d.recognize()
	return d
}

// recognize finds the conversation with the most messages that come unchanged.
func (d *draft) recognize() {
	hashes := d.v.Known().Messages()
	d.messages, d.same = make([]clientMessage, len(hashes)), new(conversation)
	for i, h := range hashes {
		d.messages[i].hash = h
	}
	for _, l := range d.before {
		if l.format != d.q.Format || l.rules != d.q.Rules || l.markers != d.q.Markers || l.leading != d.leading {
			continue
		}
		n := 0
		for n < min(len(hashes), len(l.messages)) && hashes[n] == l.messages[n].hash {
			n++
		}
		// The places of surroundings are found anew until an answer ends the opening messages.
		if n > d.unchanged && n > d.openTo() {
			d.unchanged, d.same = n, l
		}
	}
	copy(d.messages, d.same.messages[:d.unchanged])
}

func (d *draft) sizeOfPrefix() (n int) {
	for i := range d.v.Blocks[:d.v.System] {
		n += d.v.Blocks[i].Span.Len()
	}
	for i := range d.v.Messages[:d.leading] {
		n += d.v.Messages[i].Span.Len()
	}
	return n
}

// plan fills in the conversation's next state, and the cuts.
func (d *draft) plan(share func(*base) *base, m matched, next *conversation) error {
	if !d.v.Traits().MessageList {
		next.base = &base{}
		return nil
	}
	var known []tool
	if m.conversation != nil {
		known = m.conversation.tools
	}
	system := d.system()
	pins, first := d.pins(system, false), d.first
	next.base = nil
	var notes []note
	if m.conversation != nil {
		if d.aligned(m.conversation.base.system, pins) {
			next.base = m.conversation.base
		}
		for _, n := range m.conversation.notes {
			// Notes behind the common messages belong to another branch.
			if n.at < m.common && next.base != nil {
				notes = append(notes, n)
			}
		}
	}
	now, ok := known, true
	same := next.base != nil && d.offers(known)
	if !same {
		if now, ok = toolsOf(d.v, known); !ok {
			now = nil
		}
	}
	if next.base == nil {
		next.base = share(&base{system: clonePins(pins), tools: keep(now, nil)})
		known = next.base.tools
	}
	next.first = d.pinFirst(m, first)
	next.seen = unseen(pins, next.base.system, unseen(first, next.first, nil))
	var add note
	if d.q.Rules.Pins {
		d.pinned(next, system, pins, first, notes, &add)
	}
	switch {
	case !ok || d.v.Tools == 0:
	case same:
		if next.tools = known; d.q.Rules.ToolOrder {
			d.list(known) // their bytes may differ
		}
	default:
		d.tools(known, now, notes, m, next, &add)
	}
	d.edit(m, notes, &add, next)
	return d.build()
}

func (d *draft) system() []int {
	var all []int
	from, to := d.v.Tools, d.v.System
	if d.leading > 0 {
		from, to = int(d.v.Messages[0].First), int(d.v.Messages[d.leading-1].End)
	}
	for i := from; i < to; i++ {
		b := &d.v.Blocks[i]
		if b.Kind != wire.KindText || b.Body.Empty() {
			continue
		}
		if d.q.Rules.BillingLine && bytes.HasPrefix(d.v.Bytes(b.Body), []byte(`"`+wire.AttributionLine)) &&
			d.unbill(i, from, to) {
			continue
		}
		all = append(all, i)
	}
	return all
}

// unbill removes the billing line, and reports whether its block becomes empty.
func (d *draft) unbill(i, from, to int) bool {
	b := &d.v.Blocks[i]
	if _, rest, ok := strings.Cut(textOf(d.v.Bytes(b.Body)), "\n"); ok && strings.TrimSpace(rest) != "" {
		d.values[i] = value{b.Body, quote(strings.TrimLeft(rest, "\n"))}
		return false
	}
	if b.Has(wire.FlagString) || d.leading > 0 {
		return false // the system prompt has no other text
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

func (d *draft) openTo() int {
	i := d.leading
	for i < len(d.v.Messages) && d.v.Messages[i].Role == wire.RoleUser {
		i++
	}
	return i
}

func (d *draft) opening() (all []int) {
	for _, m := range d.v.Messages[d.leading:d.openTo()] {
		for i := int(m.First); i < int(m.End); i++ {
			if d.v.Blocks[i].Kind == wire.KindText {
				all = append(all, i)
			}
		}
	}
	return all
}

func (d *draft) body(i int) []byte {
	if v, ok := d.values[i]; ok {
		return v.raw
	}
	return d.v.Bytes(d.v.Blocks[i].Body)
}

func (d *draft) pins(blocks []int, message bool) []pin {
	all := make([]pin, 0, len(blocks))
	for _, i := range blocks {
		raw := d.body(i)
		// Equal bytes were surveyed for an earlier request.
		p, ok := d.recall(raw, message)
		switch {
		case ok:
		case len(raw) > maxSurveyed:
			// The text is too long to survey, so the block's hash is enough.
			p = pin{d.v.Blocks[i].Hash, raw, message, new(surroundings)}
		default:
			p = pin{hashOf([]byte(textOf(raw))), raw, message, new(surroundings)}
		}
		all = append(all, p)
	}
	return all
}

func (d *draft) recall(raw []byte, message bool) (pin, bool) {
	for _, l := range d.before {
		for _, pins := range [...][]pin{l.base.system, l.first, l.seen} {
			for _, p := range pins {
				if p.message == message && bytes.Equal(p.raw, raw) {
					return p, true
				}
			}
		}
	}
	return pin{}, false
}

func samePin(a, b pin) bool { return a.hash == b.hash }

func clonePins(all []pin) []pin {
	all = slices.Clone(all)
	for i := range all {
		all[i].raw = bytes.Clone(all[i].raw)
	}
	return all
}

func unseen(now, pinned, all []pin) []pin {
	for _, p := range now {
		if !slices.ContainsFunc(pinned, func(q pin) bool { return samePin(p, q) }) {
			p.raw = bytes.Clone(p.raw)
			all = append(all, p)
		}
	}
	return all
}

func (d *draft) aligned(pinned, now []pin) bool {
	return slices.EqualFunc(pinned, now, func(a, b pin) bool {
		return a.hash == b.hash || d.q.Rules.Pins && a.survey().rest == b.survey().rest
	})
}

// pinFirst returns the first versions of the opening texts.
func (d *draft) pinFirst(m matched, now []pin) []pin {
	n := 0
	for i := d.leading; i < min(d.leading+m.common, d.openTo()); i++ {
		msg := &d.v.Messages[i]
		for j := msg.First; j < msg.End; j++ {
			if d.v.Blocks[j].Kind == wire.KindText {
				n++
			}
		}
	}
	if n == 0 {
		return clonePins(now)
	}
	return append(slices.Clip(m.conversation.first[:n]), clonePins(now[n:])...)
}

func places(system, first []pin) (all []string) {
	for _, pins := range [...][]pin{system, first} {
		for _, p := range pins {
			all = append(all, p.survey().places...)
		}
	}
	return all
}

// pinned restores the first versions of the texts and adds a note about changes.
func (d *draft) pinned(next *conversation, system []int, pins, first []pin, notes []note, add *note) {
	for j, i := range system {
		d.pin(i, next.base.system[j])
	}
	for j, i := range d.opening() {
		d.pin(i, next.first[j])
	}
	var announced []string
	for _, n := range notes {
		if n.surroundings != nil {
			announced = n.surroundings
		}
	}
	if announced == nil && slices.EqualFunc(pins, next.base.system, samePin) &&
		slices.EqualFunc(first, next.first, samePin) {
		return
	}
	now := places(pins, first)
	if announced == nil {
		announced = places(next.base.system, next.first)
	}
	// The model knows the latest values from an earlier note.
	if slices.Equal(now, announced) {
		return
	}
	var changed []string
	for i, place := range now {
		if i >= len(announced) || announced[i] != place {
			changed = append(changed, strings.Trim(place, "\n"))
		}
	}
	add.surroundings = now
	add.text = "What this conversation began with no longer holds. It is now:\n\n" + strings.Join(changed, "\n\n")
}

func (d *draft) pin(i int, p pin) {
	if len(p.raw) == 0 || d.v.Blocks[i].Body.Empty() {
		return
	}
	if !bytes.Equal(d.body(i), p.raw) {
		d.values[i] = value{d.v.Blocks[i].Body, p.raw}
	}
}

// tools puts the tools in the prefix's order, and describes late tools in a note.
func (d *draft) tools(known, now []tool, notes []note, m matched, next *conversation, add *note) {
	ordered := now
	if d.q.Rules.ToolOrder {
		var added []tool
		ordered, added = arrange(known, now)
		// A forced tool must be in the list, and a first request has no prefix to protect.
		if d.q.Rules.LateTools && m.common > 0 && !bytes.Contains(d.v.Bytes(d.v.Reply.ToolChoice), []byte(`"name"`)) {
			added = d.late(added, notes, add)
		}
		ordered = append(ordered, added...)
		d.list(ordered)
	}
	next.tools = keep(ordered, known)
}

// offers reports whether the request has these tools, in this order.
func (d *draft) offers(known []tool) bool {
	return slices.EqualFunc(d.v.Blocks[:d.v.Tools], known, func(b wire.Block, t tool) bool { return b.Hash == t.seen })
}

// list makes these tools the request's.
func (d *draft) list(tools []tool) {
	span := rawjson.Span{Start: d.v.Blocks[0].Span.Start, End: d.v.Blocks[d.v.Tools-1].Span.End}
	rest, same := d.v.Bytes(span), true
	for i := 0; i < len(tools) && same; i++ {
		if i > 0 {
			rest, same = bytes.CutPrefix(rest, []byte{','})
		}
		if same {
			rest, same = bytes.CutPrefix(rest, tools[i].raw)
		}
	}
	if same && len(rest) == 0 {
		return
	}
	raw := make([][]byte, len(tools))
	for i := range tools {
		raw[i] = tools[i].raw
	}
	d.cuts = append(d.cuts, wire.Cut{Start: span.Start, End: span.End, With: bytes.Join(raw, []byte{','})})
}

// late adds undescribed tools to the note. It returns the tools for the list.
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
			// An answer cannot take a note, so these tools go into the list.
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
	add.text += "From here on these tools can be called, too, just as those at the beginning:\n<tools>\n" +
		strings.Join(list, "\n") + "\n</tools>"
	return nil
}

func (d *draft) listening() bool {
	m := d.v.Messages[len(d.v.Messages)-1]
	return m.Role != wire.RoleAssistant && m.End > m.First
}

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

func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings always encode
	return bytes.TrimRight(b.Bytes(), "\n")
}
