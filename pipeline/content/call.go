// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

// Toolcall understands calls of tools: what they do, what they are about,
// and which result answers which.

import (
	"path"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Call is what is understood of a tool call.
type Call struct {
	// Class is what it does.
	Class sessioncache.Class
	// Path is the file that it is about, "" if it is about none.
	Path string
	// Whole reports whether it reads the file from beginning to end.
	Whole bool
	// Shell reports whether it is made through a shell.
	Shell bool
	// CallArgument is its most telling argument.
	Argument string
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

// UnderstandCall says what a call does from its name and its input.
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

// ClassOf says what calls of a tool do, as far as its name says.
func ClassOf(name string) sessioncache.Class {
	name = strings.ToLower(name)
	for _, k := range classes {
		if strings.Contains(name, k.part) {
			return k.class
		}
	}
	return sessioncache.ClassOther
}

// FileTail returns the last two names of a path, by which calls from different folders
// can be seen to be about one file.
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

// IsTest reports by its name whether a file holds tests.
func IsTest(file string) bool {
	name := strings.ToLower(path.Base(file))
	return strings.Contains(name, "test") || strings.Contains(name, "spec")
}
