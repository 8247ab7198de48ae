// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

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
var arguments = []string{"file_path", "filePath", "absolute_path", "notebook_path", "path", "filename", "dir_path", "url", "command", "cmd", "pattern", "query"}

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
