// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package wire

import "fmt"

// markPart gives a part of a message a prompt_cache_breakpoint. A text becomes
// the one part that it means.
func markPart(v *View, b *Block, value []byte) ([]Cut, error) {
	switch {
	case !b.Marker.Empty():
		return nil, fmt.Errorf("%w: a %s has a marker already", ErrEdit, b.Kind)
	case !responsesCodec{}.Markable(b):
		return nil, fmt.Errorf("%w: this %s cannot carry a marker", ErrEdit, b.Kind)
	}
	if there := v.NullMember(b, "prompt_cache_breakpoint"); !there.Empty() {
		return []Cut{{there.Start, there.End, value}}, nil
	}
	member := make([]byte, 0, len(value)+32)
	member = append(member, `,"prompt_cache_breakpoint":`...)
	member = append(member, value...)
	if !b.Has(FlagString) {
		return []Cut{{b.Span.End - 1, b.Span.End - 1, member}}, nil
	}
	before, after := `[{"type":"input_text","text":`, `}]`
	if b.Span == v.Messages[b.Message].Span { // the input is a text
		before, after = `[{"role":"user","content":`+before, after+`}]`
	}
	return []Cut{
		{b.Span.Start, b.Span.Start, []byte(before)},
		{b.Span.End, b.Span.End, append(member, after...)},
	}, nil
}

// Markable allows a text, image or file in a message that is not the model's.
func (responsesCodec) Markable(b *Block) bool {
	if b.Section != SectionMessages || b.Role != RoleUser && b.Role != RoleSystem {
		return false
	}
	switch b.Kind {
	case KindText:
		return !b.Has(FlagEmpty)
	case KindImage, KindDocument:
		return true
	}
	return false
}
