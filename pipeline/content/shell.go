// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// printers are commands that print files.
var printers = []string{
	"cat", "sed", "head", "tail", "nl", "less", "awk", "bat", "git show", "git diff", "git blame",
	"gh pr diff", "Get-Content",
}

// finders are commands that search for files or lines.
var finders = []string{
	"grep", "rg", "find", "ls", "fd", "tree", "ag", "git grep", "git log", "git status", "wc",
	"file", "stat",
}

// fillers are commands that tell nothing about the purpose of a command line.
var fillers = []string{
	"cd", "set", "export", "source", ".", "echo", "printf", "pwd", "true", "mkdir", "sleep", "test",
	"[", "time", "sudo",
}

// interpreters are commands that run a script, which may edit files.
var interpreters = []string{"python", "python3", "node", "ruby", "perl", "uv run python"}

// command classifies a shell command: a read prints files, a search finds files or lines, an edit
// or a write changes them. Of several commands, the first that prints or writes a file counts, or
// else the first that is no filler.
func (c *Call) command() {
	line := newCommandLine(c.Argument)
	behind, told := false, false
	for {
		part, piped, ok := line.next()
		if !ok {
			return
		}
		filter := behind
		behind = piped
		// A command after a pipe only sees the output of the one before.
		if part = strings.TrimPrefix(strings.TrimPrefix(part, "do "), "then "); filter || part == "" ||
			starts(part, fillers) && !redirects(part) {
			continue
		}
		class, text := c.part(part)
		if class == sessioncache.ClassSearch && !told {
			c.Class, c.Path = class, pathIn(text, false)
		}
		if class == sessioncache.ClassSearch || class == sessioncache.ClassCommand {
			told = true
			continue
		}
		c.Class, c.Path = class, pathIn(text, class == sessioncache.ClassEdit && len(text) == len(c.Argument))
		c.Whole = class == sessioncache.ClassRead && !piped && !told && line.rest == "" &&
			starts(part, []string{"cat", "nl", "bat"})
		return
	}
}

// part classifies one command of a line, and returns the text that names its file.
func (c *Call) part(part string) (class sessioncache.Class, text string) {
	switch {
	case (starts(part, []string{"sed"}) || starts(part, []string{"perl"})) && inPlace(part):
		return sessioncache.ClassEdit, part
	case redirects(part) && starts(part, []string{"cat", "tee", "echo", "printf"}):
		return sessioncache.ClassWrite, part[strings.LastIndexByte(part, '>')+1:]
	case starts(part, interpreters) && writes(c.Argument):
		return sessioncache.ClassEdit, c.Argument
	case starts(part, printers):
		return sessioncache.ClassRead, part
	case starts(part, finders):
		return sessioncache.ClassSearch, part
	}
	return sessioncache.ClassCommand, part
}

// pathIn returns the last word of a command that looks like a file, or the first one for a script.
func pathIn(part string, first bool) (file string) {
	for word := range Words(part) {
		if strings.ContainsAny(word, "/.") && len(word) > 3 && word[0] != '-' {
			if file = word; first {
				break
			}
		}
	}
	return file
}

// inPlace reports whether a sed or perl command changes files.
func inPlace(part string) bool {
	for word := range strings.FieldsSeq(part) {
		if word == "--in-place" || len(word) > 1 && word[0] == '-' && word[1] != '-' && strings.Contains(word, "i") {
			return true
		}
		if word[0] == '\'' || word[0] == '"' {
			return false // start of the script
		}
	}
	return false
}

// redirects reports whether a command's output goes to a file.
func redirects(part string) bool {
	i := strings.IndexByte(part, '>')
	return i > 0 && part[i-1] != '2' && part[i-1] != '&' && !strings.HasPrefix(part[i:], ">&") &&
		!strings.Contains(part[i:], "/dev/null") ||
		strings.HasPrefix(part, "tee ")
}

// writes reports whether a script writes files.
func writes(script string) bool {
	for _, call := range []string{"write_text(", ".write(", "writeFile", "File.write"} {
		if strings.Contains(script, call) {
			return true
		}
	}
	return false
}

func starts(command string, names []string) bool {
	for _, n := range names {
		if rest, ok := strings.CutPrefix(command, n); ok && (rest == "" || rest[0] == ' ') {
			return true
		}
	}
	return false
}

// commandLine iterates over the commands of a command line, up to a here-document.
type commandLine struct{ rest string }

func newCommandLine(text string) *commandLine { return &commandLine{text} }

// next returns the next command, and whether its output is piped to another.
func (l *commandLine) next() (part string, piped, ok bool) {
	if l.rest == "" {
		return "", false, false
	}
	quote := byte(0)
	for i := 0; i < len(l.rest); i++ {
		switch c := l.rest[i]; {
		case c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '&' && i > 0 && l.rest[i-1] == '>':
		case c == '&' || c == ';' || c == '|' || c == '\n':
			part, piped = l.rest[:i], c == '|' && !strings.HasPrefix(l.rest[i:], "||")
			l.rest = l.rest[i+1:]
			// The rest of the line is the text of a here-document.
			if strings.Contains(part, "<<") {
				l.rest = ""
			}
			return strings.TrimSpace(part), piped, true
		}
	}
	part, l.rest = l.rest, ""
	return strings.TrimSpace(part), false, true
}
