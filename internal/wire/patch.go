// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// ErrNotObject tells that a text that should be a JSON object is none.
var ErrNotObject = errors.New("wire: not a JSON object")

// Member is a member of a JSON object.
type Member struct {
	// Name is the member's name. It must need no escapes.
	Name string
	// Value is its JSON value. Where it is nil there shall be no such member.
	Value []byte
}

// Object is a JSON object by its top-level members.
type Object struct {
	raw     []byte
	members []objectMember
	end     int // behind the closing brace
}

type objectMember struct {
	from       int // where its name begins
	key, value rawjson.Span
}

// ReadObject reads the members of a JSON object. Where a view of it is known, the messages
// are not read once more; nil for none. It returns ErrNotObject if it is not an object.
func ReadObject(raw []byte, known *View) (o Object, err error) {
	o = Object{raw: raw, members: make([]objectMember, 0, 16)}
	m := rawjson.Walk(raw, 0)
	for m.Next() {
		key := int32(m.From) + 1
		member := objectMember{from: m.From, key: rawjson.Span{Start: key, End: key + int32(len(m.Key))}}
		if end := known.endOfMessages(raw, m.At); end > 0 {
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

// endOfMessages is the index behind the list of messages that begins at an index, 0 if
// none does.
func (v *View) endOfMessages(raw []byte, at int) int {
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

// Value returns the JSON value of a member, nil if there is none of that name.
func (o *Object) Value(name string) []byte {
	for i := range o.members {
		if string(o.members[i].key.Of(o.raw)) == name {
			return o.members[i].value.Of(o.raw)
		}
	}
	return nil
}

// Patch returns a JSON object with some of its members replaced, dropped or, if
// they were not there, added at its end. All other bytes stay as they are, and
// so does object, of which nothing is changed. A name that stands in object
// more than once is patched in all its places. Patch returns object itself if
// nothing changes, and ErrNotObject if it is not an object.
func Patch(object []byte, patches ...Member) ([]byte, error) {
	o, err := ReadObject(object, nil)
	if err != nil {
		return nil, err
	}
	return o.Patch(patches...)
}

// Patch is [Patch] of the object.
func (o *Object) Patch(patches ...Member) ([]byte, error) {
	var (
		found = make([]bool, len(patches))
		cuts  []Cut
		kept  = false // a member in front stays
		open  = -1    // where dropped members at the beginning begin
		last  = 0     // the end of the member in front
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
			cuts = append(cuts, Cut{Start: int32(last), End: m.value.End})
		default:
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
	if len(cuts) == 0 {
		return o.raw, nil
	}
	return join(o.raw, cuts)
}
