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
	"math"
	"path"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// call is what is understood of a tool call.
type call struct {
	class sessioncache.Class
	// path is the file that it is about, "" if it is about none.
	path string
	// whole tells that it reads the file from beginning to end.
	whole bool
	// shell tells that it is made through a shell.
	shell bool
	// argument is its most telling argument.
	argument string
}

// classes are parts of tool names and what such tools do. The first that fits
// counts.
var classes = []struct {
	part  string
	class sessioncache.Class
}{
	{"todo", sessioncache.ClassOther},
	{"notebookread", sessioncache.ClassRead},
	{"edit", sessioncache.ClassEdit},
	{"replace", sessioncache.ClassEdit},
	{"patch", sessioncache.ClassEdit},
	{"stdin", sessioncache.ClassCommand},
	{"write", sessioncache.ClassWrite},
	{"create_file", sessioncache.ClassWrite},
	{"grep", sessioncache.ClassSearch},
	{"glob", sessioncache.ClassSearch},
	{"search", sessioncache.ClassSearch},
	{"find", sessioncache.ClassSearch},
	{"list", sessioncache.ClassSearch},
	{"bash", sessioncache.ClassCommand},
	{"shell", sessioncache.ClassCommand},
	{"exec", sessioncache.ClassCommand},
	{"command", sessioncache.ClassCommand},
	{"terminal", sessioncache.ClassCommand},
	{"run", sessioncache.ClassCommand},
	{"read", sessioncache.ClassRead},
	{"view", sessioncache.ClassRead},
	{"open", sessioncache.ClassRead},
	{"cat", sessioncache.ClassRead},
}

// printers are commands that print files.
var printers = []string{"cat", "sed", "head", "tail", "nl", "less", "awk", "bat", "git show", "git diff", "git blame"}

// finders are commands that look for files or lines.
var finders = []string{"grep", "rg", "find", "ls", "fd", "tree", "ag", "git grep", "git log", "git status"}

// understand tells what a call does from its name and its input.
func understand(name string, input gjson.Result) call {
	input = decoded(input)
	c := call{class: classOf(name), argument: argument(input)}
	switch patch, path := patchIn(input); {
	case patch:
		c.class, c.path = sessioncache.ClassEdit, path
		return c
	case input.Type != gjson.String:
	case len(commandsIn(input.Str)) > 0:
		c.class = sessioncache.ClassCommand
	default:
		if paths := literalsIn(input.Str, "path"); len(paths) > 0 {
			c.path = paths[0]
		}
		return c
	}
	if c.class == sessioncache.ClassCommand {
		c.shell = true
		c.command()
		return c
	}
	for _, key := range []string{"file_path", "filePath", "absolute_path", "notebook_path", "path", "filename"} {
		if v := input.Get(key); v.Type == gjson.String {
			c.path = v.Str
			break
		}
	}
	c.whole = c.class == sessioncache.ClassRead && !input.Get("offset").Exists() && !input.Get("limit").Exists() &&
		!input.Get("view_range").Exists() && !input.Get("start_line").Exists()
	return c
}

// classOf tells what calls of a tool do, as far as its name tells.
func classOf(name string) sessioncache.Class {
	name = strings.ToLower(name)
	for _, k := range classes {
		if strings.Contains(name, k.part) {
			return k.class
		}
	}
	return sessioncache.ClassOther
}

// command looks into a shell command: what prints files is a read, what looks
// for them a search, and what writes them by here-document or in place an edit.
func (c *call) command() {
	text := c.argument
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == '&' || r == ';' || r == '|' || r == '\n' }) {
		part = strings.TrimSpace(part)
		if strings.HasPrefix(part, "cd ") || part == "" {
			continue
		}
		switch {
		case strings.HasPrefix(part, "sed -i") || strings.HasPrefix(part, "perl -i") || strings.Contains(text, "<<"):
			c.class = sessioncache.ClassEdit
		case starts(part, printers):
			c.class = sessioncache.ClassRead
			c.whole = starts(part, []string{"cat", "nl"}) && !strings.Contains(text, "|")
		case starts(part, finders):
			c.class = sessioncache.ClassSearch
		}
		break
	}
	if c.class == sessioncache.ClassCommand {
		return
	}
	for word := range words(text) {
		if strings.ContainsAny(word, "/.") && len(word) > 3 && word[0] != '-' {
			c.path = word
		}
	}
}

func starts(command string, names []string) bool {
	for _, n := range names {
		if rest, ok := strings.CutPrefix(command, n); ok && (rest == "" || rest[0] == ' ') {
			return true
		}
	}
	return false
}

// isTest tells by its name whether a file holds tests.
func isTest(file string) bool {
	name := strings.ToLower(path.Base(file))
	return strings.Contains(name, "test") || strings.Contains(name, "spec")
}

// learn notes what is to be remembered of the blocks that are new.
func (f *frame) learn() {
	var turn, task uint16
	if f.previous > 0 {
		turn, task = f.states[f.previous-1].Turn, f.states[f.previous-1].Task
	}
	r := rooms.Get().(*room)
	defer r.release()
	var calls map[string]int // by id, where a search among few would not do
	if len(f.blocks)-f.previous > fewBlocks {
		calls = make(map[string]int)
		f.callees = make([]int32, len(f.blocks)-f.previous)
	}
	for i := f.previous; i < len(f.blocks); i++ {
		b, s := &f.blocks[i], &f.states[i]
		if i == 0 || b.Message != f.blocks[i-1].Message {
			switch m := &f.view.Messages[b.Message]; {
			case m.Role == wire.RoleAssistant:
				turn++
			case m.Role == wire.RoleUser && !f.answersTool(m):
				task++
			}
		}
		s.Turn, s.Task = turn, task
		switch b.Kind {
		case wire.KindToolUse:
			input := inputOf(f.view.Bytes(b.Body))
			c := understand(f.view.Text(b.Name), input)
			s.Class, s.Whole, s.Shell = c.class, c.whole, c.shell
			if c.path != "" {
				s.Path, s.Test = hashOf(c.path), isTest(c.path)
			}
			if b.Body.Len() >= minTrait && s.Trait == "" && foldable(input) {
				s.Trait = inputTrait(r, input, c)
			}
			if c.class == sessioncache.ClassEdit && b.Body.Len() >= minFold {
				s.Replaced = uint16(min(replacedBytes(input), math.MaxUint16))
			}
			if calls != nil && !b.ID.Empty() {
				calls[f.view.Text(b.ID)] = i
			}
		case wire.KindToolResult:
			j := f.newCall(i, calls)
			if f.callees != nil {
				f.callees[i-f.previous] = int32(j) + 2
			}
			if j >= 0 {
				c := &f.states[j]
				s.Class, s.Path, s.Whole, s.Shell, s.Test = c.Class, c.Path, c.Whole, c.Shell, c.Test
			} else {
				s.Class, s.Path, s.Whole, s.Shell, s.Test = sessioncache.ClassNone, 0, false, false, false
			}
			if b.Body.Len() >= minTrait && s.Trait == "" {
				s.Trait = f.resultTrait(r, i)
			}
		}
	}
}

// fewBlocks is the number of new blocks up to which a call is searched for.
const fewBlocks = 64

// newCall finds the call that a new result answers, among the new blocks if it
// is there: its index, or -1.
func (f *frame) newCall(i int, calls map[string]int) int {
	id := f.view.Bytes(f.blocks[i].ID)
	if len(id) == 0 {
		return f.callOf(i)
	}
	if j, ok := calls[string(id)]; ok {
		return j
	}
	for j := i - 1; calls == nil && j >= f.previous; j-- {
		if b := &f.blocks[j]; b.Kind == wire.KindToolUse && string(f.view.Bytes(b.ID)) == string(id) {
			return j
		}
	}
	return f.callOf(i)
}

// resultTrait tells by what a later answer can be seen to refer to a result.
func (f *frame) resultTrait(r *room, i int) sessioncache.Trait {
	var few [mostTerms]uint64
	terms := append(few[:0], hashOf(f.view.Text(f.blocks[i].ID)))
	if j := f.callOf(i); j >= 0 {
		terms = appendTerms(terms, argument(inputOf(f.view.Bytes(f.blocks[j].Body))))
	}
	r.lines = appendLines(r.lines[:0], f.text(i))
	return newTrait(terms, r.lines)
}

// inputTrait does the same for what a call has written.
func inputTrait(r *room, input gjson.Result, c call) sessioncache.Trait {
	var few [mostTerms]uint64
	terms := appendTerms(few[:0], c.argument)
	m := mention{lines: r.lines[:0], unread: true}
	m.value(input, 0)
	r.lines = m.lines
	return newTrait(terms, m.lines)
}
