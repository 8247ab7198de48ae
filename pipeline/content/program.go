// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"path"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// maxInput is the maximum size of a readable call input, in bytes. The output of models is
// shorter.
const maxInput = 1 << 20

// CallInput returns the input of a call as an object, see [DecodedInput], or nothing for an input
// above the maximum. It is valid as long as body.
func CallInput(body []byte) gjson.Result {
	switch {
	case len(body) > maxInput:
		return gjson.Result{}
	case len(body) > 1 && body[0] == '"':
		return DecodedInput(gjson.Result{Type: gjson.String, Raw: rawjson.View(body), Str: Unquote(body)})
	}
	return gjson.Parse(rawjson.View(body))
}

// DecodedInput returns the input of a call as an object: the OpenAI formats encode it as a JSON
// string. The free text of a custom tool of the Responses API stays a string.
func DecodedInput(input gjson.Result) gjson.Result {
	if input.Type != gjson.String || !rawjson.ValidObject(input.Str) {
		return input
	}
	return gjson.Parse(input.Str)
}

// ShellLine returns the command line of a list of words. For a shell with a script, it is the
// script.
func ShellLine(list gjson.Result) string {
	var words []string
	list.ForEach(func(_, word gjson.Result) bool {
		words = append(words, word.String())
		return true
	})
	if len(words) == 3 && strings.HasPrefix(words[1], "-") && strings.HasSuffix(words[1], "c") &&
		strings.HasSuffix(path.Base(words[0]), "sh") {
		return words[2]
	}
	return strings.Join(words, " ")
}

// CommandsIn returns the literal command lines that a program runs. Codex models write JavaScript
// that calls tools, as in tools.exec_command({cmd: "ls"}).
func CommandsIn(program string) []string { return literalsIn(program, "cmd", "command") }

// literalsIn returns the string literals that a program assigns to members of some names.
func literalsIn(program string, names ...string) []string {
	var out []string
	for rest := program; ; {
		at, name := -1, ""
		for _, key := range names {
			if i := strings.Index(rest, key); i >= 0 && (at < 0 || i < at) {
				at, name = i, key
			}
		}
		if at < 0 {
			return out
		}
		rest = rest[at+len(name):]
		value := strings.TrimLeft(rest, "\"' ")
		if value, ok := strings.CutPrefix(value, ":"); ok {
			if s, ok := literal(strings.TrimLeft(value, " \n\t")); ok {
				out = append(out, s)
			}
		}
	}
}

// literal returns the text of the string literal at the start of s.
func literal(s string) (string, bool) {
	if s == "" || strings.IndexByte("\"'`", s[0]) < 0 {
		return "", false
	}
	var out strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == s[0]:
			return out.String(), true
		case c != '\\' || i+1 == len(s):
			out.WriteByte(c)
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
	return "", false
}

// OnlyCommands reports whether a program only calls tools that run commands.
func OnlyCommands(program string) bool {
	calls := strings.Count(program, "tools.")
	return calls == strings.Count(program, "tools.exec_command(")+strings.Count(program, "tools.write_stdin(")+
		strings.Count(program, "tools.shell(")
}
