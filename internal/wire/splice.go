// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// ErrEdit reports an edit that would make the request invalid.
var ErrEdit = errors.New("impossible edit")

// Splice applies edits to the client's bytes and returns a new body. Bytes outside the edited spans
// are copied unchanged. A block may have several edits if they change different parts, such as a
// replacement and a marker. Without edits Splice returns the body itself. A new body may be passed
// to [reuse.Recycle] once it is no longer used.
func (v *View) Splice(edits []Edit) ([]byte, error) {
	if len(edits) == 0 {
		return v.Raw, nil
	}
	cuts := make([]Cut, 0, len(edits)+4)
	var removed []int
	rebuilt := v.toRebuild(edits)
	for i := range edits {
		e := &edits[i]
		if e.Block < 0 || e.Block >= len(v.Blocks) {
			return nil, fmt.Errorf("%w: no block %d", ErrEdit, e.Block)
		}
		b := &v.Blocks[e.Block]
		// Signed blocks must come back unchanged.
		if b.Has(FlagSigned) && e.Op <= OpMark {
			return nil, fmt.Errorf("%w: a signed %s is to be edited", ErrEdit, b.Kind)
		}
		// rebuild applies these edits.
		if rebuilt[b.Message] && v.inContent(b) && e.Op < OpBeforeMessage {
			continue
		}
		switch e.Op {
		case OpReplace:
			if b.Body.Empty() {
				return nil, fmt.Errorf("%w: a %s without content is to be replaced", ErrEdit, b.Kind)
			}
			cuts = append(cuts, Cut{b.Body.Start, b.Body.End, v.content(b, e.Value)})
		case OpMark:
			c, err := v.mark(b, e.Value)
			if err != nil {
				return nil, err
			}
			cuts = append(cuts, c...)
		case OpRemove:
			removed = append(removed, e.Block)
		default:
			c, err := v.insert(b, e)
			if err != nil {
				return nil, err
			}
			cuts = append(cuts, c)
		}
	}
	for m := range rebuilt {
		c, err := v.rebuild(m, edits)
		if err != nil {
			return nil, err
		}
		cuts = append(cuts, c)
	}
	removals, err := v.removals(removed)
	if err != nil {
		return nil, err
	}
	return join(v.Raw, append(cuts, removals...))
}

// join copies raw with the cuts applied.
func join(raw []byte, cuts []Cut) ([]byte, error) {
	// A stable sort keeps the order of insertions at one position around a replacement there.
	slices.SortStableFunc(cuts, func(a, b Cut) int {
		if a.Start != b.Start {
			return int(a.Start) - int(b.Start)
		}
		return int(a.End) - int(b.End)
	})
	size := len(raw)
	for i, c := range cuts {
		if i > 0 && c.Start < cuts[i-1].End {
			return nil, fmt.Errorf("%w: two edits overlap", ErrEdit)
		}
		size += len(c.With) - int(c.End-c.Start)
	}
	out := reuse.Buffer(size)
	at := int32(0)
	for _, c := range cuts {
		out = append(out, raw[at:c.Start]...)
		out = append(out, c.With...)
		at = c.End
	}
	return append(out, raw[at:]...), nil
}

// content returns new content in the form that fits the block.
func (v *View) content(b *Block, value []byte) []byte {
	if r, ok := v.Format.Codec().(Replacer); ok {
		return r.Replacement(v, b, value)
	}
	return value
}

// mark returns the cuts that give a block a cache marker.
func (v *View) mark(b *Block, value []byte) ([]Cut, error) {
	if m, ok := v.Format.Codec().(Marker); ok {
		return m.Mark(v, b, value)
	}
	return nil, fmt.Errorf("%w: this format has no markers", ErrEdit)
}

// Markable reports whether a block may carry a cache marker.
func (v *View) Markable(b *Block) bool {
	m, ok := v.Format.Codec().(Marker)
	return ok && m.Markable(b)
}

// MarkBlock returns the cuts that give a block a cache_control.
func (v *View) MarkBlock(b *Block, value []byte) ([]Cut, error) {
	switch {
	case !b.Marker.Empty():
		return []Cut{{b.Marker.Start, b.Marker.End, value}}, nil
	case !Markable(b):
		return nil, fmt.Errorf("%w: this %s cannot carry a marker", ErrEdit, b.Kind)
	}
	// A second cache_control beside a null one would be a duplicate.
	if there := v.NullMember(b, "cache_control"); !there.Empty() {
		return []Cut{{there.Start, there.End, value}}, nil
	}
	member := make([]byte, 0, len(value)+20)
	member = append(member, `,"cache_control":`...)
	member = append(member, value...)
	// Only an object can have a marker: the string becomes an array of one text block.
	if b.Has(FlagString) {
		if b.Kind != KindText {
			return nil, fmt.Errorf("%w: this %s cannot carry a marker", ErrEdit, b.Kind)
		}
		return []Cut{
			{b.Span.Start, b.Span.Start, []byte(`[{"type":"text","text":`)},
			{b.Span.End, b.Span.End, append(member, `}]`...)},
		}, nil
	}
	return []Cut{{b.Span.End - 1, b.Span.End - 1, member}}, nil
}

// Markable reports whether a block may carry a cache_control.
func Markable(b *Block) bool {
	return !(b.Has(FlagEmpty) && b.Kind == KindText || b.Has(FlagDeferred) || b.Has(FlagMember) || b.Kind == KindThinking || b.Kind == KindRedactedThinking)
}

// NullMember returns the value of a block's null member, empty for none.
func (v *View) NullMember(b *Block, name string) (value rawjson.Span) {
	if b.Has(FlagString) {
		return rawjson.Span{}
	}
	m := rawjson.Walk(v.Raw, int(b.Span.Start))
	for m.Next() {
		found := string(m.Key) == name
		if s := m.Skip(); found {
			value = s
		}
	}
	return value
}

// removals returns the cuts that remove blocks from their messages.
func (v *View) removals(removed []int) ([]Cut, error) {
	if len(removed) == 0 {
		return nil, nil
	}
	slices.Sort(removed)
	removed = slices.Compact(removed)
	cuts := make([]Cut, 0, len(removed))
	for i := 0; i < len(removed); {
		first := &v.Blocks[removed[i]]
		if first.Message < 0 {
			return nil, fmt.Errorf("%w: a %s outside messages is to be removed", ErrEdit, first.Kind)
		}
		msg := &v.Messages[first.Message]
		n := i
		for n < len(removed) && removed[n] < int(msg.End) {
			n++
		}
		// A message must keep at least one block.
		if n-i == int(msg.End-msg.First) {
			return nil, fmt.Errorf("%w: message %d would be left empty", ErrEdit, first.Message)
		}
		c, err := v.removeFrom(msg, removed[i:n])
		if err != nil {
			return nil, err
		}
		cuts = append(cuts, c...)
		i = n
	}
	return cuts, nil
}

// removeFrom removes some, but not all, blocks of one message.
func (v *View) removeFrom(msg *Message, removed []int) ([]Cut, error) {
	cuts := make([]Cut, 0, len(removed))
	for i := 0; i < len(removed); i++ {
		b := &v.Blocks[removed[i]]
		switch {
		case b.Kind.isPaired():
			return nil, fmt.Errorf("%w: a %s is one of a pair", ErrEdit, b.Kind)
		case !v.Removable(removed[i]):
			return nil, fmt.Errorf("%w: this %s cannot be removed", ErrEdit, b.Kind)
		case b.Has(FlagMember):
			// Adjacent members are removed together with the comma between them.
			span := b.Span
			for i+1 < len(removed) && v.Blocks[removed[i+1]].Has(FlagMember) && v.Adjacent(span, v.Blocks[removed[i+1]].Span) {
				i++
				span.End = v.Blocks[removed[i]].Span.End
			}
			cuts = append(cuts, v.member(span))
			continue
		case b.Has(FlagString): // the content of a chat message with calls
			cuts = append(cuts, Cut{b.Span.Start, b.Span.End, []byte("null")})
			continue
		}
		if v.Traits().FlatItems && msg.Role == RoleAssistant {
			last := i
			for last+1 < len(removed) && v.adjoin(removed[last], removed[last+1]) {
				last++
			}
			cuts = append(cuts, v.items(b.Span.Start, v.Blocks[removed[last]].Span.End))
			i = last
			continue
		}
		// A run of elements is removed with the comma after it, or, at the end of the array, with
		// the comma before it.
		last := i
		for last+1 < len(removed) && removed[last+1] == removed[last]+1 && v.element(msg, removed[last+1]) {
			last++
		}
		prev, next := removed[i]-1, removed[last]+1
		switch {
		case v.element(msg, next):
			cuts = append(cuts, Cut{b.Span.Start, v.Blocks[next].Span.Start, nil})
		case v.element(msg, prev):
			cuts = append(cuts, Cut{v.Blocks[prev].Span.End, v.Blocks[removed[last]].Span.End, nil})
		default: // the whole array of a chat message with calls
			cuts = append(cuts, Cut{msg.Content.Start, msg.Content.End, []byte("null")})
		}
		i = last
	}
	return cuts, nil
}

// element reports whether a block is an element of its message's content array.
func (v *View) element(msg *Message, block int) bool {
	return block >= int(msg.First) && block < int(msg.End) &&
		v.Blocks[block].Span.Start >= msg.Content.Start && v.Blocks[block].Span.End <= msg.Content.End
}

// Adjacent reports whether two members of an object are separated by a comma only. Such members
// must be removed with one cut.
func (v *View) Adjacent(a, b rawjson.Span) bool {
	comma := rawjson.SkipSpace(v.Raw, int(a.End))
	return v.Raw[comma] == ',' && rawjson.SkipSpace(v.Raw, comma+1) == int(b.Start)
}

// member returns the cut that removes an object's member and one of its commas.
func (v *View) member(s rawjson.Span) Cut {
	end := int32(rawjson.SkipSpace(v.Raw, int(s.End)))
	// The last member is removed with the comma before it, any other with the comma after it.
	if v.Raw[end] == ',' {
		return Cut{s.Start, int32(rawjson.SkipSpace(v.Raw, int(end)+1)), nil}
	}
	start := s.Start
	for start > 0 && v.Raw[start] != ',' && v.Raw[start] != '{' {
		start--
	}
	if v.Raw[start] == '{' {
		start++
	}
	return Cut{start, s.End, nil}
}
