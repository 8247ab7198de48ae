// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"fmt"
)

// inContent reports whether a block is the content of its message or an element of it.
func (v *View) inContent(b *Block) bool {
	if b.Message < 0 {
		return false
	}
	c := v.Messages[b.Message].Content
	return b.Span.Start >= c.Start && b.Span.End <= c.End
}

// toRebuild returns the messages that need a rebuild: their content gets new elements, or is split.
// The rebuild applies all other edits of their content, too.
func (v *View) toRebuild(edits []Edit) map[int32]bool {
	var out map[int32]bool
	for i := range edits {
		e := &edits[i]
		if v.Traits().FlatItems || e.Op != OpBefore && e.Op != OpAfter && e.Op != OpSplit || e.Block < 0 || e.Block >= len(v.Blocks) {
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

// rebuild writes a message with new elements in its content. Unedited blocks and the bytes around
// the content stay the client's.
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
