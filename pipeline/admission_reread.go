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
	"bytes"
	"fmt"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

const pointerMark = mark + "same content as the result of "

// reread makes a pointer to an equal result that stands earlier in the
// conversation and goes out as it was admitted. It returns "" if there is none.
// The earlier result counts as referred to.
func (f *frame) reread(i int, text string) string {
	essence := unwrapped(text)
	if len(essence) < minAdmission {
		return ""
	}
	hash := hashOf(essence)
	f.states[i].Content = hash
	looks := 0
	for j := range f.alike(i, hash) {
		if looks++; looks > mostAlike {
			break
		}
		if !f.visible(j) || unwrapped(textOf(f.view, &f.blocks[j])) != essence {
			continue
		}
		f.states[j].Unused = 0
		id := ""
		if b := &f.blocks[j]; !b.ID.Empty() { // Gemini's results may have none
			id = " (" + f.view.Text(b.ID) + ")"
		}
		return fmt.Sprintf("%s%s above%s, %d lines]", pointerMark, f.calledFor(j), id, countLines(essence))
	}
	return ""
}

// visible tells whether the upstream is shown a result, at least as admitted.
func (f *frame) visible(j int) bool {
	e := f.states[j].Edit
	return e == nil || e.Stage == stageAdmission && !f.pointer(j)
}

// pointer tells whether a block stands as a pointer to an earlier one, whose
// text it relies on.
func (f *frame) pointer(i int) bool {
	e := f.states[i].Edit
	return e != nil && e.Stage == stageAdmission && bytes.HasPrefix(e.Value, []byte(`"`+pointerMark))
}

// calledFor names the call that a result answers, in a few words.
func (f *frame) calledFor(i int) string {
	if j := f.callOf(i); j >= 0 {
		return f.describe(j)
	}
	return "a call"
}

// describe names a call by its tool and its most telling argument.
func (f *frame) describe(j int) string {
	call := &f.blocks[j]
	name := f.view.Text(call.Name)
	if a := argument(inputOf(f.view.Bytes(call.Body))); a != "" {
		return name + " " + clip(strings.Join(strings.Fields(a), " "), 120)
	}
	return name
}

// unwrapped cuts off what clients put around a tool's output and what differs
// each time: reminders at its end (Claude Code), the header with the time that
// a command took (Codex), the number of the process group (Gemini CLI).
func unwrapped(s string) string {
	for {
		t := strings.TrimRight(s, " \r\n")
		if !strings.HasSuffix(t, "</system-reminder>") {
			break
		}
		i := strings.LastIndex(t, "<system-reminder>")
		if i < 0 {
			break
		}
		s = t[:i]
	}
	s = unheaded(s)
	if i := lastIndex(s, "Process Group PGID: "); i >= 0 && digits(strings.TrimSpace(s[i+len("Process Group PGID: "):])) {
		s = s[:i]
	}
	return strings.TrimRight(s, " \r\n")
}

// unheaded cuts off what Codex puts in front of a command's output.
func unheaded(s string) string {
	const output = "\nOutput:\n"
	if strings.HasPrefix(s, "Chunk ID: ") || strings.HasPrefix(s, "Wall time: ") || strings.HasPrefix(s, "Script ") {
		if i := strings.Index(s[:min(len(s), 400)], output); i >= 0 {
			return strings.TrimLeft(s[i+len(output):], "\n")
		}
	}
	return s
}

// lastIndex is strings.LastIndex for what can only stand near the end.
func lastIndex(s, what string) int {
	from := max(0, len(s)-100)
	if i := strings.LastIndex(s[from:], what); i >= 0 {
		return from + i
	}
	return -1
}

// pointable tells whether a result may stand as a pointer, or be pointed to.
func pointable(b *wire.Block) bool { return !b.Has(wire.FlagError) && !b.Has(wire.FlagMedia) }
