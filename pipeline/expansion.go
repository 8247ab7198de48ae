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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/admission"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/stub"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/toolcall"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Expansion is one block that the model has asked for again.
type Expansion struct {
	// Class is the kind of call whose text it was.
	Class sessioncache.Class
	// Bytes is the size of what was returned.
	Bytes int
	// Part tells that only a part was asked for.
	Part bool
	// Unknown tells that there is no such block in this conversation.
	Unknown bool
	// Refused tells that the call was no expansion, but one whose arguments
	// held a stub.
	Refused bool
}

// Block is a text that was folded, under the name in its stub.
type Block struct {
	Name, Text string
}

// most is how many blocks one call may ask for.
const most = 32

// Answer answers a call that is kept from the client: of the expand tool, or of
// another one whose arguments hold a stub. The originals come from the request
// itself; recall may know those of blocks that the client has dropped.
func (x *Exchange) Answer(p *wire.Part, recall func(name string) (string, bool)) {
	if !x.CallsExpand(p.Name) {
		x.refuse(p)
		return
	}
	arguments := gjson.Parse(p.Arguments)
	names := askedFor(arguments)
	if len(names) == 0 {
		p.Result, p.Failed = "Give the ids of folded blocks as in [[llm_cache:folded ID ...]].", true
		return
	}
	narrow, err := narrowing(arguments)
	if err != nil {
		p.Result, p.Failed = err.Error(), true
		return
	}
	var out []string
	failed := true
	for _, name := range names {
		text, ok := x.expansion(name, recall, narrow)
		failed = failed && !ok
		if len(names) > 1 {
			text = name + ":\n" + text
		}
		out = append(out, text)
	}
	p.Result, p.Failed = strings.Join(out, "\n"), failed
	if p.Result == "" {
		p.Result = "(empty)"
	}
}

func (x *Exchange) expansion(name string, recall func(string) (string, bool), narrow func(string) string) (string, bool) {
	f := x.frame
	id, part, parted := strings.Cut(name, ".")
	var text, output string // output is the text without what it is wrapped in
	var ok bool
	e := Expansion{Part: narrow != nil || parted}
	i := f.foldedAs(id)
	switch {
	case i >= 0:
		text, ok = stub.Original(f.View, &f.Blocks[i]), true
		if output = text; f.Blocks[i].Kind == wire.KindToolResult {
			output, ok = f.Text(i), !parted
		}
		e.Class = f.States[i].Class
	case recall != nil && len(id) == stub.IDLen:
		text, ok = recall(id)
		output, e.Class = content.Unwrap(text), sessioncache.ClassOther
	}
	if ok && parted && (i < 0 || f.Blocks[i].Kind == wire.KindToolUse) {
		text, ok = stub.Part(text, part)
		output = text
	}
	if !ok {
		e.Unknown = true
		x.Expansions = append(x.Expansions, e)
		return "Unknown block: " + strconv.Quote(content.Clip(name, 40)) + " is not folded in this conversation.", false
	}
	if i >= 0 {
		x.asked = append(x.asked, i)
	}
	if narrow != nil {
		text = narrow(output)
	}
	e.Bytes = len(text)
	x.Expansions = append(x.Expansions, e)
	return text, true
}

// askedFor reads the ids of a call, in the forms that models and other tools of
// this kind use.
func askedFor(arguments gjson.Result) (names []string) {
	add := func(v gjson.Result) {
		// A model may copy more of the frame than the id.
		s := strings.TrimPrefix(strings.TrimSpace(v.Str), stub.Frame)
		if s, _, _ = strings.Cut(s, ":"); s != "" && len(names) < most {
			names = append(names, s)
		}
	}
	for _, key := range []string{"ids", "id", "block_ids", "block_id"} {
		v := arguments.Get(key)
		if v.IsArray() {
			v.ForEach(func(_, item gjson.Result) bool {
				add(item)
				return true
			})
		} else if v.Type == gjson.String {
			add(v)
		}
	}
	return names
}

// longestPattern bounds a search pattern, in bytes.
const longestPattern = 1000

// narrowing returns what reduces a text to the part asked for, nil for all of
// it. Lines are returned as they stand; those found by a pattern have their
// numbers in front.
func narrowing(arguments gjson.Result) (func(string) string, error) {
	lines, pattern := arguments.Get("lines").Str, arguments.Get("pattern").Str
	if lines == "" && pattern == "" {
		return nil, nil
	}
	first, last := 1, int(^uint(0)>>1)
	if lines != "" {
		from, to, ranged := strings.Cut(lines, "-")
		a, err := strconv.Atoi(strings.TrimSpace(from))
		b := a
		if err == nil && ranged && strings.TrimSpace(to) != "" {
			b, err = strconv.Atoi(strings.TrimSpace(to))
		} else if err == nil && ranged {
			b = last
		}
		if err != nil || a < 1 || b < a {
			return nil, fmt.Errorf("lines: %q is no range of lines like \"10-80\"", content.Clip(lines, 40))
		}
		first, last = a, b
	}
	var re *regexp.Regexp
	if pattern != "" {
		if len(pattern) > longestPattern {
			return nil, fmt.Errorf("pattern: longer than %d bytes", longestPattern)
		}
		var err error
		if re, err = regexp.Compile(pattern); err != nil {
			re = regexp.MustCompile(regexp.QuoteMeta(pattern))
		}
	}
	return func(text string) string {
		var out strings.Builder
		n := 0
		for line := range strings.Lines(text) {
			n++
			if n < first || n > last || re != nil && !re.MatchString(line) {
				continue
			}
			if re != nil {
				out.WriteString(strconv.Itoa(n))
				out.WriteByte(':')
			}
			out.WriteString(line)
		}
		if out.Len() == 0 {
			return fmt.Sprintf("Nothing there: the text has %d lines.", n)
		}
		return out.String()
	}, nil
}

// Stubs tells whether the request that was sent holds stubs that could be
// taken for content.
func (x *Exchange) Stubs() bool { return x.stubs }

// Writes tells whether calls of a tool may write what their arguments hold. All
// may but those that read or search, as the first word of their name tells: a part
// of a name tells less.
func (x *Exchange) Writes(name string) bool {
	switch toolcall.ClassOf(name) {
	case sessioncache.ClassRead, sessioncache.ClassSearch:
		return !slices.Contains(lookers, verb(name))
	}
	return true
}

var lookers = []string{"read", "view", "cat", "grep", "rg", "glob", "search", "find", "list", "ls"}

// verb is the first word of a name such as read_file or ReadFile, in lower
// case.
func verb(name string) string {
	for i, r := range name {
		if i > 0 && !unicode.IsLower(r) {
			return strings.ToLower(name[:i])
		}
	}
	return strings.ToLower(name)
}

// Misled tells whether the arguments of a call hold a stub of this
// conversation, or a note that admission left in it: the model took it for the
// text that it stands for.
func (x *Exchange) Misled(arguments string) bool {
	return len(x.misled(arguments)) > 0 || x.noted(arguments) != ""
}

// noted finds a note of admission in the arguments of a call, "" if they hold none.
func (x *Exchange) noted(arguments string) string {
	for {
		i := strings.Index(arguments, admission.Note)
		if i < 0 {
			return ""
		}
		arguments = arguments[i:]
		end := strings.IndexByte(arguments, ']')
		if end < 0 {
			return ""
		}
		note := []byte(arguments[:end+1])
		for i := range x.states {
			if e := x.states[i].Edit; e != nil && e.Stage == stage.Admission && bytes.Contains(e.Value, note) {
				return string(note)
			}
		}
		arguments = arguments[len(admission.Note):]
	}
}

func (x *Exchange) misled(arguments string) (known []string) {
	names := stub.Names(arguments)
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		if id, _, _ := strings.Cut(name, "."); x.frame.foldedAs(id) >= 0 {
			known = append(known, name)
		}
	}
	return known
}

// refuse answers a call that must not be run.
func (x *Exchange) refuse(p *wire.Part) {
	p.Failed = true
	x.Expansions = append(x.Expansions, Expansion{Refused: true})
	names := x.misled(p.Arguments)
	if len(names) == 0 {
		p.Result = fmt.Sprintf("Not run: the arguments hold %s, which only stands in for lines. Look them up, and call again with them.", x.noted(p.Arguments))
		return
	}
	p.Result = fmt.Sprintf("Not run: the arguments hold [[llm_cache:folded %s ...]], which only stands in for text. Get the text by %s, ids %q, and call again with it.",
		strings.Join(names, " and "), x.frame.tool(), names)
}

// tool is the name of the tool that the model knows.
func (f *frame) tool() string {
	if f.expand == expandOffered {
		for i := range toolDefs(f.View) {
			for _, name := range f.o.Expand.names() {
				if f.View.Text(f.View.Blocks[i].Name) == name {
					return name
				}
			}
		}
	}
	return ExpandTool
}

// Folded returns the texts that were folded in this request, for a store that
// keeps them beyond the client's own history.
func (x *Exchange) Folded() (out []Block) {
	f := x.frame
	if !x.Edited || f == nil || f.expand == expandNone {
		return nil
	}
	for i := range f.fresh {
		if !stub.Folded(f.States[i].Edit) {
			continue
		}
		out = append(out, Block{f.stubName(i), stub.Original(f.View, &f.Blocks[i])})
	}
	return out
}

// learnExpansions makes what was asked for again count: the block is in use,
// stays whole from here on, and its like are more likely to be needed.
func (x *Exchange) learnExpansions(l *sessioncache.Lineage) {
	for _, i := range x.asked {
		s := &x.states[i]
		s.Unused, s.Pinned = 0, true
		if n := &l.Expanded[s.Class]; *n < 1<<15 {
			*n++
		}
	}
}

// back says how the model gets the text of a stub.
func (f *frame) back(i int) string {
	switch {
	case f.expand != expandNone:
		return ExpandTool + " returns it."
	case toolcall.Of(f.View, i) >= 0:
		return "Run the call again to see it."
	}
	return "It is gone."
}

// foldedAs finds the folded block of a name, -1 if there is none in the request.
func (f *frame) foldedAs(name string) int {
	if len(name) != stub.IDLen {
		return -1
	}
	for i := range f.Blocks {
		if stub.Folded(f.States[i].Edit) && f.stubName(i) == name {
			return i
		}
	}
	return -1
}

// stubName is how a block is named in its stub.
func (f *frame) stubName(i int) string { return stub.Name(f.session, f.View, &f.Blocks[i]) }

// stub stands in for a tool result, with so many of its first lines.
func (f *frame) stub(i, preview int) string {
	return stub.Result(f.View, i, f.stubName(i), f.Text(i), f.back(i), preview)
}
