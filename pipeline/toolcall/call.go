// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package toolcall understands calls of tools: what they do, what they are about,
// and which result answers which.
package toolcall

import (
	"path"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/block"
)

// Call is what is understood of a tool call.
type Call struct {
	// Class is what it does.
	Class block.Class
	// Path is the file that it is about, "" if it is about none.
	Path string
	// Whole reports whether it reads the file from beginning to end.
	Whole bool
	// Shell reports whether it is made through a shell.
	Shell bool
	// Argument is its most telling argument.
	Argument string
}

// classes are parts of tool names and what such tools do. The first that fits
// counts.
var classes = []struct {
	part  string
	class block.Class
}{
	{"todo", block.ClassOther},
	{"notebookread", block.ClassRead},
	{"edit", block.ClassEdit},
	{"replace", block.ClassEdit},
	{"patch", block.ClassEdit},
	{"stdin", block.ClassCommand},
	{"write", block.ClassWrite},
	{"create_file", block.ClassWrite},
	{"grep", block.ClassSearch},
	{"glob", block.ClassSearch},
	{"search", block.ClassSearch},
	{"find", block.ClassSearch},
	{"list", block.ClassSearch},
	{"bash", block.ClassCommand},
	{"shell", block.ClassCommand},
	{"exec", block.ClassCommand},
	{"command", block.ClassCommand},
	{"terminal", block.ClassCommand},
	{"run", block.ClassCommand},
	{"read", block.ClassRead},
	{"view", block.ClassRead},
	{"open", block.ClassRead},
	{"cat", block.ClassRead},
}

// Understand says what a call does from its name and its input.
func Understand(name string, input gjson.Result) Call {
	in := read(input)
	c := Call{Class: ClassOf(name), Argument: in.tells()}
	switch {
	case in.patch:
		c.Class, c.Path = block.ClassEdit, in.patched
		return c
	case in.Type != gjson.String:
	case len(CommandsIn(in.Str)) > 0:
		c.Class = block.ClassCommand
	default:
		if paths := literalsIn(in.Str, "path"); len(paths) > 0 {
			c.Path = paths[0]
		}
		return c
	}
	if c.Class == block.ClassCommand {
		c.Shell = true
		c.command()
		return c
	}
	c.Path, c.Whole = in.file.Str, c.Class == block.ClassRead && !in.part
	return c
}

// ClassOf says what calls of a tool do, as far as its name says.
func ClassOf(name string) block.Class {
	name = strings.ToLower(name)
	for _, k := range classes {
		if strings.Contains(name, k.part) {
			return k.class
		}
	}
	return block.ClassOther
}

// Tail returns the last two names of a path, by which calls from different folders
// can be seen to be about one file.
func Tail(file string) string {
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
