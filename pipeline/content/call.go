// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"path"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Toolcall classifies tool calls: their effect, their subject, and their results.

// Call holds the facts about a tool call.
type Call struct {
	// Class is its effect.
	Class sessioncache.Class
	// Path is the file that the call is about, "" if there is none.
	Path string
	// Whole reports whether the call reads the whole file.
	Whole bool
	// Shell reports whether the call runs in a shell.
	Shell bool
	// Argument is its most telling argument.
	Argument string
}

// classes maps parts of tool names to classes. The first match counts.
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

// UnderstandCall classifies a call by its name and its input.
func UnderstandCall(name string, input gjson.Result) Call {
	in := read(input)
	c := Call{Class: ClassOf(name), Argument: in.tells()}
	switch {
	case in.patch:
		c.Class, c.Path = sessioncache.ClassEdit, in.patched
		return c
	case in.Type != gjson.String:
	case len(CommandsIn(in.Str)) > 0:
		c.Class = sessioncache.ClassCommand
	default:
		if paths := literalsIn(in.Str, "path"); len(paths) > 0 {
			c.Path = paths[0]
		}
		return c
	}
	if c.Class == sessioncache.ClassCommand {
		c.Shell = true
		c.command()
		return c
	}
	c.Path, c.Whole = in.file.Str, c.Class == sessioncache.ClassRead && !in.part
	return c
}

// ClassOf returns the class of a tool by its name.
func ClassOf(name string) sessioncache.Class {
	name = strings.ToLower(name)
	for _, k := range classes {
		if strings.Contains(name, k.part) {
			return k.class
		}
	}
	return sessioncache.ClassOther
}

// FileTail returns the last two names of a path. Calls from different folders about one file share
// them.
func FileTail(file string) string {
	names := 0
	for i := len(file) - 1; i >= 0; i-- {
		if file[i] != '/' && file[i] != '\\' {
			continue
		}
		if names++; names == 2 {
			return strings.ReplaceAll(file[i+1:], `\`, "/")
		}
	}
	return strings.TrimPrefix(strings.ReplaceAll(file, `\`, "/"), "./")
}

// IsTest reports by its name whether a file contains tests.
func IsTest(file string) bool {
	name := strings.ToLower(path.Base(file))
	return strings.Contains(name, "test") || strings.Contains(name, "spec")
}

// DescribeCall describes a call by its tool and its most telling argument.
func DescribeCall(v *wire.View, call *wire.Block) string {
	name := v.Text(call.Name)
	if a := CallArgument(CallInput(v.Bytes(call.Body))); a != "" {
		return name + " " + Clip(strings.Join(strings.Fields(a), " "), 120)
	}
	return name
}

// CallArgument returns the most telling argument of a call.
func CallArgument(input gjson.Result) string {
	in := read(input)
	return in.tells()
}

// input is the parsed input of a call.
type input struct {
	// Result is the object, or the free text of a custom tool. Clients of APIs without such tools
	// send the text as the only member of an object.
	gjson.Result
	// argument is the most telling member, and file the member with a file name.
	argument, file gjson.Result
	// part reports whether the call is about a part of the file.
	part bool
	// patch reports whether the input contains a patch, and patched is the first file in the patch.
	patch   bool
	patched string
}

// arguments are the members of tool inputs that tell the subject of a call, the most telling first.
var arguments = []string{
	"file_path", "filePath", "absolute_path", "notebook_path", "path", "filename", "dir_path",
	"url", "command", "cmd", "pattern", "query",
}

// files is the number of arguments, from the first on, that name a file.
const files = 6

// read parses the input of a call in one pass over its members.
func read(of gjson.Result) input {
	in := input{Result: DecodedInput(of)}
	if in.IsObject() {
		var only gjson.Result
		members, told, named := 0, len(arguments), files
		in.ForEach(func(key, v gjson.Result) bool {
			members++
			switch key.Str {
			case "offset", "limit", "view_range", "start_line":
				in.part = true
				return true
			case "input":
				only = v
			}
			i := slices.Index(arguments, key.Str)
			if i >= 0 && i < told && (v.Type == gjson.String || v.IsArray()) {
				told, in.argument = i, v
			}
			if i >= 0 && i < named && v.Type == gjson.String {
				named, in.file = i, v
			}
			return true
		})
		// The free text of a custom tool, from a client of an API without such tools.
		if members == 1 && only.Type == gjson.String {
			in.Result = only
		}
	}
	in.patch, in.patched = patchIn(in.Result)
	return in
}

// tells returns the most telling argument.
func (in *input) tells() string {
	switch {
	case in.patched != "":
		return in.patched
	case in.Type == gjson.String:
		if commands := CommandsIn(in.Str); len(commands) > 0 {
			return strings.Join(commands, "\n")
		}
		return in.Str
	case in.argument.IsArray():
		return ShellLine(in.argument)
	}
	return in.argument.Str
}

// mostBetween is the maximum number of blocks between a call and its result, and between the
// results of a response and its first call. Models make far fewer calls at once, and a search this
// long is cheap.
const mostBetween = 512

// CallOf returns the index of the call that a tool result answers, in the messages before it, or
// -1.
func CallOf(v *wire.View, i int) int {
	blocks := v.MessageBlocks()
	id := v.Bytes(blocks[i].ID)
	if len(id) == 0 {
		return callInOrder(v, i)
	}
	for j := i - 1; j >= max(0, i-mostBetween); j-- {
		b := &blocks[j]
		if b.Kind == wire.KindToolUse && string(v.Bytes(b.ID)) == string(id) {
			return j
		}
		if b.Role == wire.RoleAssistant && b.Message+2 < blocks[i].Message && v.Traits().ResultsFollow {
			break // results follow their call directly
		}
	}
	if v.Traits().LooseIDs { // the client made up an id of its own
		return callInOrder(v, i)
	}
	return -1
}

// callInOrder returns the call that a tool result without an id answers. The n-th result of a name
// belongs to the n-th call of that name in the response before it.
func callInOrder(v *wire.View, i int) int {
	blocks := v.MessageBlocks()
	name := v.Bytes(blocks[i].Name)
	if len(name) == 0 {
		return -1
	}
	same := func(j int, k wire.Kind) bool {
		return blocks[j].Kind == k && string(v.Bytes(blocks[j].Name)) == string(name)
	}
	before, j, least := 0, i-1, max(0, i-2*mostBetween)
	for ; j >= least && blocks[j].Role != wire.RoleAssistant; j-- {
		if same(j, wire.KindToolResult) {
			before++
		}
	}
	first := j
	for first > least && blocks[first-1].Role == wire.RoleAssistant {
		first--
	}
	if j < least || first == least && least > 0 {
		return -1
	}
	for n := max(first, 0); n <= j; n++ {
		if !same(n, wire.KindToolUse) {
			continue
		}
		if before == 0 {
			return n
		}
		before--
	}
	return -1
}
