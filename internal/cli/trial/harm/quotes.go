// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package harm

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
)

// minQuote is the minimum length of a quoted line, in characters: shorter ones occur in too many places.
const minQuote = 25

// replacements are the parameter names of the old and the new text in edit tools.
var replacements = [...][2]string{
	{"old_string", "new_string"},
	{"old_str", "new_str"},
	{"old_text", "new_text"},
	{"old", "new"},
	{"oldString", "newString"},
	{"oldText", "newText"},
	{"search", "replace"},
}

// Quotes returns the quoted lines of each edit of a file in an answer: the text that an edit
// replaces, the removed and context lines of a patch, and the text that a command or script
// searches for in order to replace it. Edits without a line of at least 25 characters are left out.
func Quotes(answer *recording.Message) (edits [][]string) {
	for i := range answer.Content {
		b := &answer.Content[i]
		if b.Type != "tool_use" {
			continue
		}
		if lines := longLines(oldTexts("input", gjson.ParseBytes(b.Input))); len(lines) > 0 {
			edits = append(edits, lines)
		}
	}
	return edits
}

func longLines(texts []string) (lines []string) {
	for _, text := range texts {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); utf8.RuneCountInString(line) >= minQuote {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// oldTexts finds the texts that a call replaces, at any depth of its input.
func oldTexts(key string, input gjson.Result) (out []string) {
	switch {
	case input.Type == gjson.String:
		return inText(key, input.Str)
	case input.IsObject():
		for _, names := range replacements {
			if old := input.Get(names[0]); old.Type == gjson.String && input.Get(names[1]).Exists() {
				out = append(out, old.Str)
			}
		}
	case !input.IsArray():
		return nil
	}
	input.ForEach(func(k, v gjson.Result) bool {
		name := k.Str
		if name == "" { // list elements take the key of the list
			name = key
		}
		out = append(out, oldTexts(name, v)...)
		return true
	})
	return out
}

// inText finds the texts that a string in a call's input replaces.
func inText(key, s string) (out []string) {
	switch {
	case strings.HasPrefix(strings.TrimSpace(s), patchBegin):
		return patched(s)
	case key == "patch", key == "diff":
		return diffed(s)
	case key == "command", key == "cmd":
		return inCommand(s)
	case key == "input": // a program that calls the tools
		for _, text := range literals(s) {
			out = append(out, inCommand(text)...)
		}
	}
	return out
}

// inCommand finds the texts that a command line or a script in it replaces.
func inCommand(s string) []string {
	out := append(patched(s), diffed(s)...)
	for _, m := range inPlace.FindAllString(s, -1) {
		out = append(out, until(m, substitution)...)
	}
	return append(out, until(s, literal)...)
}

const patchBegin, patchEnd = "*** Begin Patch", "*** End Patch"

// patched returns the removed and context lines of patches in the format of Codex's apply_patch.
func patched(s string) (out []string) {
	inside := false
	for line := range strings.Lines(s) {
		switch {
		case strings.Contains(line, patchBegin):
			inside = true
		case strings.HasPrefix(line, patchEnd):
			inside = false
		case !inside:
		case strings.HasPrefix(line, "-"), strings.HasPrefix(line, " "):
			out = append(out, line[1:])
		case strings.HasPrefix(line, "@@ "):
			out = append(out, line[len("@@ "):])
		}
	}
	return out
}

func diffed(s string) (out []string) {
	inside := false
	for line := range strings.Lines(s) {
		switch {
		case strings.HasPrefix(line, "@@ -"):
			inside = true
		case !inside:
		case strings.HasPrefix(line, "--- "), line[0] != '-' && line[0] != ' ' && line[0] != '+' && line[0] != '\\':
			inside = false
		case line[0] != '+' && line[0] != '\\':
			out = append(out, line[1:])
		}
	}
	return out
}

var (
	// inPlace matches a command that edits files by substitutions.
	inPlace = regexp.MustCompile(`\b(?:sed|perl)\s(?:[^|\n]*?\s)?-(?:-in-place|[a-zA-Z0-9]*i)[^\n]*`)
	// substitution matches the start of a substitution up to its delimiter.
	substitution = regexp.MustCompile(`['"\s;][0-9,$]*s([/|#@,!])`)
	// literal matches the code before a quoted text that a script replaces, up to the quote.
	literal = regexp.MustCompile("(?:\\.replace(?:All)?\\(|\\bre\\.sub\\(|\\bold\\w*\\s*=)\\s*r?(\"\"\"|'''|\"|'|`)")
)

func until(command string, begin *regexp.Regexp) (out []string) {
	for {
		m := begin.FindStringSubmatchIndex(command)
		if m == nil {
			return out
		}
		text, n := untilMark(command[m[1]:], command[m[2]:m[3]])
		if n > 0 {
			out = append(out, text)
		}
		command = command[m[1]+max(n, 0):]
	}
}

// untilMark returns the text before an end mark, unescaped, and the mark's index, -1 without a mark.
func untilMark(s, end string) (string, int) {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], end):
			return out.String(), i
		case s[i] != '\\' || i+1 == len(s):
			out.WriteByte(s[i])
		default:
			i++
			switch s[i] {
			case 'n':
				out.WriteByte('\n')
			case 't':
				out.WriteByte('\t')
			default:
				out.WriteByte(s[i])
			}
		}
	}
	return "", -1
}

func literals(program string) (out []string) {
	for i := 0; i < len(program); i++ {
		if strings.IndexByte("\"'`", program[i]) < 0 {
			continue
		}
		if text, n := untilMark(program[i+1:], program[i:i+1]); n >= 0 {
			out = append(out, text)
			i += n + 1
		}
	}
	return out
}
