// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// ErrNotObject reports JSON text that is not an object.
var ErrNotObject = errors.New("wire: not a JSON object")

// Member is a member of a JSON object, or a change to one.
type Member struct {
	// Name is the member's name, without characters that need escapes.
	Name string
	// Value is the JSON value. Nil removes the member.
	Value []byte
}

// Object is a JSON object, split into its top-level members.
type Object struct {
	raw     []byte
	members []objectMember
	end     int // index after the closing brace
}

type objectMember struct {
	from       int // start of the name
	key, value rawjson.Span
}

// ReadObject reads the members of a JSON object. A view of the same bytes, nil for none, saves
// scanning the messages and the tools again. It returns [ErrNotObject] if raw is not an object.
func ReadObject(raw []byte, known *View) (o Object, err error) {
	o = Object{raw: raw, members: make([]objectMember, 0, 16)}
	m := rawjson.Walk(raw, 0)
	for m.Next() {
		key := int32(m.From) + 1
		member := objectMember{from: m.From, key: rawjson.Span{Start: key, End: key + int32(len(m.Key))}}
		if end := max(known.endOfMessages(raw, m.At), known.endOfTools(raw, m.At)); end > 0 {
			member.value, m.At = rawjson.Span{Start: int32(m.At), End: int32(end)}, end
		} else if member.value = m.Skip(); m.Bad {
			break
		}
		o.members = append(o.members, member)
	}
	if o.end = m.End; m.Bad || rawjson.SkipSpace(raw, m.End) != len(raw) {
		return o, ErrNotObject
	}
	return o, nil
}

// endOfMessages returns the index after the list of messages at index at, or 0 if the list is elsewhere.
func (v *View) endOfMessages(raw []byte, at int) int {
	// The view must be of this slice, not of equal bytes.
	if v == nil || len(v.Messages) == 0 || len(raw) != len(v.Raw) || &raw[0] != &v.Raw[0] || raw[at] != '[' {
		return 0
	}
	if rawjson.SkipSpace(raw, at+1) != int(v.Messages[0].Span.Start) {
		return 0
	}
	end := rawjson.SkipSpace(raw, int(v.Messages[len(v.Messages)-1].Span.End))
	if end == len(raw) || raw[end] != ']' {
		return 0
	}
	return end + 1
}

// endOfTools returns the index after the list of tools at index at, or 0 if the list is elsewhere or has elements that
// are no blocks.
func (v *View) endOfTools(raw []byte, at int) int {
	if v == nil || v.Tools == 0 || len(raw) != len(v.Raw) || &raw[0] != &v.Raw[0] || raw[at] != '[' {
		return 0
	}
	for i := range v.Blocks[:v.Tools] {
		span := v.Blocks[i].Span
		if rawjson.SkipSpace(raw, at+1) != int(span.Start) {
			return 0
		}
		at = rawjson.SkipSpace(raw, int(span.End))
		if i < v.Tools-1 && (at == len(raw) || raw[at] != ',') {
			return 0
		}
	}
	if at == len(raw) || raw[at] != ']' {
		return 0
	}
	return at + 1
}

// Extended returns the view of a body with further members at its end, which it does not describe.
func (v *View) Extended(raw []byte) *View {
	out := *v
	out.Raw = raw
	return &out
}

// Rename returns a body, which is that of the view with edits of its messages, with another model.
func (v *View) Rename(body *Body, model string) (*Body, error) {
	o, err := ReadObject(v.Raw, v)
	if err != nil {
		return nil, err
	}
	return body.With(o.cuts([]Member{{Name: "model", Value: rawjson.Quote(model)}})...)
}

// Renamed returns the view of the body with another model. Its spans are those of v, moved.
func (v *View) Renamed(model string) (*View, error) {
	o, err := ReadObject(v.Raw, v)
	if err != nil {
		return nil, err
	}
	at := int32(o.end)
	for i := range o.members {
		if string(o.members[i].key.Of(o.raw)) == "model" {
			at = o.members[i].value.Start
		}
	}
	out := *v
	if out.Raw, err = o.Patch(Member{Name: "model", Value: rawjson.Quote(model)}); err != nil {
		return nil, err
	}
	out.Model = model
	by := int32(len(out.Raw) - len(v.Raw))
	if by == 0 {
		return &out, nil
	}
	shift := func(spans ...*rawjson.Span) {
		for _, s := range spans {
			if s.Start >= at {
				*s = s.Shift(by)
			}
		}
	}
	out.Blocks, out.Messages = slices.Clone(v.Blocks), slices.Clone(v.Messages)
	for i := range out.Blocks {
		if out.Blocks[i].Span.Start >= at {
			move(out.Blocks[i:i+1], by)
		}
	}
	for i := range out.Messages {
		shift(&out.Messages[i].Span, &out.Messages[i].Content)
	}
	shift(&out.Tags, &out.Reply.StreamOptions, &out.Reply.ToolChoice, &out.Reply.Thinking, &out.Reply.OutputConfig,
		&out.Conversation.Thread, &out.Conversation.ContextManagement, &out.Conversation.Compaction,
		&out.Caching.AutoMarker)
	return &out, nil
}

// Value returns the JSON value of a member, nil for none.
func (o *Object) Value(name string) []byte {
	for i := range o.members {
		if string(o.members[i].key.Of(o.raw)) == name {
			return o.members[i].value.Of(o.raw)
		}
	}
	return nil
}

// Patch returns a JSON object with members replaced, dropped, or added at its end. All other bytes
// stay the same, and object is not modified. A duplicate member is patched at each position. Patch
// returns object itself if nothing changes, and [ErrNotObject] if it is not an object.
func Patch(object []byte, patches ...Member) ([]byte, error) {
	o, err := ReadObject(object, nil)
	if err != nil {
		return nil, err
	}
	return o.Patch(patches...)
}

// Patch applies [Patch] to the object.
func (o *Object) Patch(patches ...Member) ([]byte, error) {
	cuts := o.cuts(patches)
	if len(cuts) == 0 {
		return o.raw, nil
	}
	return join(o.raw, cuts)
}

// Edit is [Object.Patch] without a copy of the object.
func (o *Object) Edit(patches ...Member) (*Body, error) { return NewBody(o.raw, o.cuts(patches)...) }

// cuts returns the edits that make the patches.
func (o *Object) cuts(patches []Member) (cuts []Cut) {
	var (
		found = make([]bool, len(patches))
		kept  = false // a preceding member stays
		open  = -1    // start of dropped members at the beginning
		last  = 0     // end of the preceding member
	)
	for _, m := range o.members {
		if open >= 0 {
			cuts = append(cuts, Cut{Start: int32(open), End: int32(m.from)})
			open = -1
		}
		name := m.key.Of(o.raw)
		switch i := slices.IndexFunc(patches, func(p Member) bool { return p.Name == string(name) }); {
		case i < 0:
			kept = true
		case patches[i].Value != nil:
			if !bytes.Equal(m.value.Of(o.raw), patches[i].Value) {
				cuts = append(cuts, Cut{m.value.Start, m.value.End, patches[i].Value})
			}
			kept, found[i] = true, true
		case kept:
			// Remove the member with the comma before it.
			cuts = append(cuts, Cut{Start: int32(last), End: m.value.End})
		default:
			// Leading members are removed with the comma after them.
			open = m.from
		}
		last = int(m.value.End)
	}
	if open >= 0 {
		cuts = append(cuts, Cut{Start: int32(open), End: int32(last)})
	}
	var added []byte
	for i, p := range patches {
		if found[i] || p.Value == nil {
			continue
		}
		if kept {
			added = append(added, ',')
		}
		kept = true
		added = append(added, '"')
		added = append(added, p.Name...)
		added = append(added, `":`...)
		added = append(added, p.Value...)
	}
	if added != nil {
		cuts = append(cuts, Cut{int32(o.end) - 1, int32(o.end) - 1, added})
	}
	return cuts
}
