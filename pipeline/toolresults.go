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
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// compactToolResults replaces long tool results of the middle zone by their
// size and a preview of their first line. Errors stay, because the model needs
// to know what went wrong; parts that are not text stay too.
func (f *frame) compactToolResults() {
	o := &f.o.CompactToolResults
	if o.Mode == stage.Off {
		return
	}
	over := *o.Over
	for i := range f.Blocks {
		b := &f.Blocks[i]
		if b.Kind != wire.KindToolResult || !f.open(i) || f.Size(i) <= over ||
			b.Has(wire.FlagError) || !f.zones.middle(b) || !f.may(i) {
			continue
		}
		text := content.Unheaded(f.Text(i))
		chars := utf8.RuneCountInString(text)
		if chars <= over {
			continue
		}
		value := content.WithText(f.View, b, compacted(text, chars))
		if saving := f.Size(i) - len(value); saving > 0 && f.pays(o.Mode, i, saving) {
			f.set(i, stage.ToolResults, wire.OpReplace, value)
		}
	}
}

// open tells whether nothing has been done to a block but to admit it.
func (f *frame) open(i int) bool {
	e := f.States[i].Edit
	return e == nil || e.Stage == stage.Admission
}

func compacted(text string, chars int) string {
	return fmt.Sprintf("[Compacted: %d lines, %d chars]\n%s", content.CountLines(text), chars, strings.Join(content.HeadLines(text, 1, 120), ""))
}
