// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Op is the operation of an edit.
type Op uint8

const (
	// OpReplace replaces the block's Body by Value, a JSON value. If Body is the whole response of
	// a Gemini function, a string value becomes {"output": …}.
	OpReplace Op = iota
	// OpRemove removes the block and its comma from the message. Splice refuses to remove a
	// message's last block.
	OpRemove
	// OpMark sets the block's cache_control (in the Responses API prompt_cache_breakpoint) to
	// Value, a JSON value. A FlagString block becomes an array of one text block. An existing
	// cache_control is replaced. An existing prompt_cache_breakpoint is an error, as is any OpMark
	// in the Gemini format.
	OpMark
	// OpBefore inserts Value, one element, before the block in its array: a message's content, its
	// tool calls, or the tools. A string content becomes an array.
	OpBefore
	// OpAfter inserts like OpBefore, after the block.
	OpAfter
	// OpSplit splits the block's message before the block and inserts Value, one or more
	// comma-separated messages. The block continues in a new message of the same role.
	OpSplit
	// OpBeforeMessage inserts Value, one or more comma-separated messages, before the block's
	// message.
	OpBeforeMessage
	// OpAfterMessage inserts like OpBeforeMessage, after the message.
	OpAfterMessage
	// OpPut replaces the whole block, a tool definition, by Value, one element.
	OpPut
)

// Edit is one change of one block.
type Edit struct {
	// Block is an index in [View.Blocks].
	Block int
	// Op is the operation.
	Op Op
	// Value is a JSON value, see Op.
	Value []byte
}

// EditKinds is a set of edit kinds. An upstream may reject one kind and accept the rest.
type EditKinds uint8

const (
	// EditTools marks a request with tools that the client did not send.
	EditTools EditKinds = 1 << iota
	// EditMarkers marks a request with cache markers or options that the client did not send.
	EditMarkers
	// EditText marks a request with shortened or removed blocks.
	EditText
	// EditOverlay marks a prompt that starts with an earlier prompt's bytes, for a local server.
	EditOverlay
	// EditUsage marks a request that asks for the usage of a stream.
	EditUsage

	// AllEdits is the set of all kinds.
	AllEdits = EditTools | EditMarkers | EditText | EditOverlay | EditUsage
)

var editKindNames = [...]string{"tools", "markers", "text", "overlay", "usage"}

// Has reports whether the sets have a kind in common.
func (k EditKinds) Has(any EditKinds) bool { return k&any != 0 }

// String returns the names of the kinds, separated by commas.
func (k EditKinds) String() string {
	var names []string
	for i, name := range editKindNames {
		if k.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// ErrEdit reports an edit that would make the request invalid.
var ErrEdit = errors.New("impossible edit")

// Splice is [View.Edited] in one piece.
func (v *View) Splice(edits []Edit) ([]byte, error) {
	b, err := v.Edited(edits)
	if err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Edited returns the body with edits. Bytes outside the edited spans are the client's. A block may
// have several edits if they change different parts, such as a replacement and a marker.
func (v *View) Edited(edits []Edit) (*Body, error) {
	if len(edits) == 0 {
		return &Body{Raw: v.Raw}, nil
	}
	rebuilt := v.toRebuild(edits)
	// rebuild applies these edits.
	within := func(e *Edit) bool {
		b := &v.Blocks[e.Block]
		return rebuilt[b.Message] && v.inContent(b) && e.Op < OpBeforeMessage
	}
	var removed []int
	for i := range edits {
		e := &edits[i]
		if e.Block < 0 || e.Block >= len(v.Blocks) {
			return nil, fmt.Errorf("%w: no block %d", ErrEdit, e.Block)
		}
		// Signed blocks must come back unchanged.
		if b := &v.Blocks[e.Block]; b.Has(FlagSigned) && e.Op <= OpMark {
			return nil, fmt.Errorf("%w: a signed %s is to be edited", ErrEdit, b.Kind)
		}
		if e.Op == OpRemove && !within(e) {
			if removed == nil {
				removed = make([]int, 0, len(edits)-i)
			}
			removed = append(removed, e.Block)
		}
	}
	removals, err := v.removals(removed)
	if err != nil {
		return nil, err
	}
	cuts := make([]Cut, 0, len(edits)+len(removals)-len(removed)+4)
	for i := range edits {
		e := &edits[i]
		if within(e) {
			continue
		}
		b := &v.Blocks[e.Block]
		// Edits mostly come in order, so that there is little left to sort.
		for len(removals) > 0 && removals[0].Start < b.Span.Start {
			cuts, removals = append(cuts, removals[0]), removals[1:]
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
		case OpPut:
			cuts = append(cuts, Cut{b.Span.Start, b.Span.End, e.Value})
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
	return NewBody(v.Raw, append(cuts, removals...)...)
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
	return !(b.Has(FlagEmpty) && b.Kind == KindText || b.Has(FlagDeferred) || b.Has(FlagMember) ||
		b.IsThinking())
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
		var err error
		if cuts, err = v.removeFrom(cuts, msg, removed[i:n]); err != nil {
			return nil, err
		}
		i = n
	}
	return cuts, nil
}

// removeFrom appends the cuts that remove some, but not all, blocks of one message.
func (v *View) removeFrom(cuts []Cut, msg *Message, removed []int) ([]Cut, error) {
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

// inContent reports whether a block is the content of its message or an element of it.
func (v *View) inContent(b *Block) bool {
	if b.Message < 0 {
		return false
	}
	c := v.Messages[b.Message].Content
	return b.Span.Start >= c.Start && b.Span.End <= c.End
}

// toRebuild returns the messages that need a rebuild.
func (v *View) toRebuild(edits []Edit) map[int32]bool {
	var out map[int32]bool
	for i := range edits {
		e := &edits[i]
		// A rebuild applies all edits of a content, so only new elements and splits ask for one.
		if v.Traits().FlatItems || e.Op != OpBefore && e.Op != OpAfter && e.Op != OpSplit || e.Block < 0 ||
			e.Block >= len(v.Blocks) {
			continue
		}
		if b := &v.Blocks[e.Block]; v.inContent(b) {
			if out == nil {
				out = make(map[int32]bool)
			}
			out[b.Message] = true
		}
	}
	return out
}

// insert returns the cut of an insertion outside of a message's content.
func (v *View) insert(b *Block, e *Edit) (Cut, error) {
	switch e.Op {
	case OpBefore, OpAfter:
		// A whole item of the model is an element of the input.
		item := v.Traits().FlatItems && b.Role == RoleAssistant && !b.Has(FlagPart)
		if !b.Kind.IsCall() && b.Kind != KindToolDef && !item {
			break
		}
		if e.Op == OpBefore {
			return Cut{b.Span.Start, b.Span.Start, append(bytes.Clone(e.Value), ',')}, nil
		}
		return Cut{b.Span.End, b.Span.End, append([]byte{','}, e.Value...)}, nil
	case OpBeforeMessage, OpAfterMessage:
		if b.Message < 0 {
			break
		}
		s := v.Messages[b.Message].Span
		if e.Op == OpBeforeMessage {
			return Cut{s.Start, s.Start, append(bytes.Clone(e.Value), ',')}, nil
		}
		return Cut{s.End, s.End, append([]byte{','}, e.Value...)}, nil
	}
	return Cut{}, fmt.Errorf("%w: nothing can be put beside this %s", ErrEdit, b.Kind)
}

// rebuild writes a message with new elements in its content.
func (v *View) rebuild(m int32, edits []Edit) (Cut, error) {
	msg := &v.Messages[m]
	if string(msg.Content.Of(v.Raw)) == "null" {
		return Cut{}, fmt.Errorf("%w: message %d has no content", ErrEdit, m)
	}
	var out, elements []byte
	put := func(element []byte) {
		if len(elements) > 0 {
			elements = append(elements, ',')
		}
		elements = append(elements, element...)
	}
	closeMessage := func() {
		if len(elements) == 0 {
			return
		}
		if len(out) > 0 {
			out = append(out, ',')
		}
		// The bytes around the content stay the client's.
		out = append(out, v.Raw[msg.Span.Start:msg.Content.Start]...)
		out = append(append(append(out, '['), elements...), ']')
		out = append(out, v.Raw[msg.Content.End:msg.Span.End]...)
		elements = elements[:0]
	}
	for i := int(msg.First); i < int(msg.End); i++ {
		b := &v.Blocks[i]
		if !v.inContent(b) {
			if b.Has(FlagMember) {
				return Cut{}, fmt.Errorf("%w: message %d has members of its own", ErrEdit, m)
			}
			continue // a tool call beside the content
		}
		element, err := v.spliced(i, b, edits)
		if err != nil {
			return Cut{}, err
		}
		for j := range edits {
			if e := &edits[j]; e.Block == i {
				switch e.Op {
				case OpBefore:
					put(e.Value)
				case OpSplit:
					closeMessage()
					if len(out) > 0 {
						out = append(out, ',')
					}
					out = append(out, e.Value...)
				}
			}
		}
		if element != nil {
			put(element)
		}
		for j := range edits {
			if e := &edits[j]; e.Block == i && e.Op == OpAfter {
				put(e.Value)
			}
		}
	}
	closeMessage()
	if len(out) == 0 {
		return Cut{}, fmt.Errorf("%w: message %d would be left empty", ErrEdit, m)
	}
	return Cut{msg.Span.Start, msg.Span.End, out}, nil
}

// spliced returns a block with its own edits applied, nil if it is removed.
func (v *View) spliced(i int, b *Block, edits []Edit) ([]byte, error) {
	var cuts []Cut
	marked := false
	for j := range edits {
		e := &edits[j]
		if e.Block != i {
			continue
		}
		switch e.Op {
		case OpRemove:
			if b.Kind.isPaired() {
				return nil, fmt.Errorf("%w: a %s is one of a pair", ErrEdit, b.Kind)
			}
			return nil, nil
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
			marked = true
		}
	}
	for j := range cuts {
		cuts[j].Start -= b.Span.Start
		cuts[j].End -= b.Span.Start
	}
	out, err := join(b.Span.Of(v.Raw), cuts)
	if err != nil || !b.Has(FlagString) {
		return out, err
	}
	if marked { // mark has made it an array of one block
		return out[1 : len(out)-1], nil
	}
	return append(append([]byte(`{"type":"text","text":`), out...), '}'), nil
}

// Removable reports whether the format allows removing a block from its message.
func (v *View) Removable(block int) bool {
	switch b := &v.Blocks[block]; {
	case b.Message < 0 || b.Has(FlagPart) || b.Has(FlagSigned):
		// Signed blocks must come back unchanged, and an item must not lose a part.
		return false
	case b.Kind.isPaired() || b.Kind == KindReasoning:
		return false
	default:
		// The Responses API requires the item after a reasoning item.
		return block == 0 || v.Blocks[block-1].Kind != KindReasoning || v.Blocks[block-1].Message != b.Message
	}
}

// adjoin reports whether two items are separated by a comma only.
func (v *View) adjoin(a, b int) bool {
	i := rawjson.SkipSpace(v.Raw, int(v.Blocks[a].Span.End))
	return v.Raw[i] == ',' && rawjson.SkipSpace(v.Raw, i+1) == int(v.Blocks[b].Span.Start)
}

// items returns the cut that removes whole items of an input with one comma.
func (v *View) items(start, end int32) Cut {
	if i := rawjson.SkipSpace(v.Raw, int(end)); v.Raw[i] == ',' {
		return Cut{start, int32(rawjson.SkipSpace(v.Raw, i+1)), nil}
	}
	// There is a comma before: another item of the message always stays.
	for v.Raw[start] != ',' {
		start--
	}
	return Cut{start, end, nil}
}

// Cut replaces the bytes Start to End (exclusive) by With.
type Cut struct {
	Start, End int32
	With       []byte
}

// Replace returns a copy of raw with the cuts applied. The cuts must not overlap.
func Replace(raw []byte, cuts []Cut) ([]byte, error) {
	return join(raw, slices.Clone(cuts))
}

// Without returns the cut that removes a member, key included, from its object.
func (v *View) Without(member rawjson.Span) Cut {
	return v.member(member)
}

// Unmark returns the cut that removes a block's cache marker, and false for a block without one.
func (v *View) Unmark(block int) (Cut, bool) {
	marker := v.Blocks[block].Marker
	if marker.Empty() {
		return Cut{}, false
	}
	const space = " \t\r\n"
	// The span only covers the value: find the key before it.
	before := bytes.TrimRight(v.Raw[:marker.Start], space)
	before, ok := bytes.CutSuffix(before, []byte{':'})
	if !ok {
		return Cut{}, false
	}
	before, ok = bytes.CutSuffix(bytes.TrimRight(before, space), []byte{'"'})
	quote := bytes.LastIndexByte(before, '"')
	if !ok || quote < 0 {
		return Cut{}, false
	}
	return v.Without(rawjson.Span{Start: int32(quote), End: marker.End}), true
}
