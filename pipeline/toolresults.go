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

package pipeline

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

const stageToolResults = "compact_tool_results"

// compactToolResults replaces long tool results of the middle zone by their
// size and a preview of their first line. Errors stay, because the model needs
// to know what went wrong; parts that are not text stay too.
func (f *frame) compactToolResults() {
	o := &f.o.CompactToolResults
	if o.Mode == Disabled {
		return
	}
	over := *o.Over
	for i := range f.Blocks {
		b := &f.Blocks[i]
		if b.Kind != wire.KindToolResult || !f.open(i) || f.size(i) <= over ||
			b.Has(wire.FlagError) || !f.zones.middle(b) || !f.may(i) {
			continue
		}
		text := unheaded(f.text(i))
		chars := utf8.RuneCountInString(text)
		if chars <= over {
			continue
		}
		value := withMedia(f.View, b, compacted(text, chars))
		if saving := f.size(i) - len(value); saving > 0 && f.pays(o.Mode, i, saving) {
			f.set(i, stageToolResults, wire.OpReplace, value)
		}
	}
}

// open tells whether nothing has been done to a block but to admit it.
func (f *frame) open(i int) bool {
	e := f.States[i].Edit
	return e == nil || e.Stage == stageAdmission
}

func compacted(text string, chars int) string {
	return fmt.Sprintf("[Compacted: %d lines, %d chars]\n%s", countLines(text), chars, strings.Join(headLines(text, 1, 120), ""))
}

// withMedia makes a tool result's new content: the text alone, or the text in
// front of the parts that are not text, in the client's own bytes. In some
// formats those stand beside the text, not in it.
func withMedia(v *wire.View, b *wire.Block, text string) []byte {
	if !b.Has(wire.FlagMedia) || v.Traits().MediaBesideResult {
		return quote(text)
	}
	out := append([]byte(`[{"type":"`), cmp.Or(v.Traits().TextType, "text")...)
	out = append(append(append(out, `","text":`...), quote(text)...), '}')
	gjson.ParseBytes(v.Bytes(b.Body)).ForEach(func(_, part gjson.Result) bool {
		if !isTextPart(part) {
			out = append(append(out, ','), part.Raw...)
		}
		return true
	})
	return append(out, ']')
}
