// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

// Toolcall classifies tool calls: their effect, their subject, and their results.

import (
	"path"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

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
