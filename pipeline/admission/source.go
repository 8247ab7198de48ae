// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// source is where the text of a tool result comes from. It decides which rules
// of admission may touch it: an edit can quote a line of a file that was read,
// but hardly one of the output of a build.
type source uint8

const (
	sourceOther   source = 1 << iota // pages, sub-agents, tools that nobody knows
	sourceRead                       // files, whole or in part, and differences of files
	sourceSearch                     // lines of files that were searched for
	sourceWrite                      // what a tool says after it has written a file
	sourceCommand                    // output of programs
)

// origin is what admission knows about a result besides its text.
type origin struct {
	source source
	// numbered reports whether the lines of a file may have numbers put in front.
	numbered bool
	// written is the text that the call wrote into a file, if it did.
	written string
	// failed reports whether the tool reported an error.
	failed bool
}

// The names of tools, in lower case and without separators.
var (
	readers = []string{
		"read", "readfile", "fileread", "fsread", "readmanyfiles", "readfiles", "view", "viewfile", "open", "openfile", "cat", "getfile",
		"getfilecontents", "notebookread", "readnotebook", "scrollup", "scrolldown", "goto", "readtextfile", "readmediafile",
	}
	searchers = []string{"grep", "greptool", "rg", "ripgrep", "grepsearch", "search", "searchfiles", "searchfilecontent", "searchdir", "searchfile", "codesearch"}
	writers   = []string{
		"write", "writefile", "writetofile", "filewrite", "create", "createfile", "edit", "editfile", "multiedit", "replace",
		"replaceinfile", "strreplace", "insert", "notebookedit", "strreplaceeditor", "strreplacebasededittool",
	}
	shells = []string{
		"bash", "shell", "sh", "zsh", "powershell", "exec", "execcommand", "execute", "executecommand", "executebash", "run", "runcommand",
		"runshellcommand", "runterminalcmd", "runinterminal", "terminal", "command", "containerexec", "localshell", "bashoutput", "writestdin", "unifiedexec",
	}
)

// originOfResult says where a tool result comes from.
func originOfResult(h *content.History, i int) *origin {
	v, blocks := h.View, h.Blocks
	failed := blocks[i].Has(wire.FlagError)
	j := h.Call(i)
	if j < 0 {
		return &origin{source: sourceOther, failed: failed}
	}
	call := &blocks[j]
	o := originOf(v.Text(call.Name), content.CallInput(v.Bytes(call.Body)), failed)
	return &o
}

// originOf says where the result of a call comes from.
func originOf(name string, input gjson.Result, failed bool) origin {
	input = content.DecodedInput(input)
	o := origin{source: sourceOther, failed: failed}
	switch name = bareName(name); {
	case slices.Contains(readers, name):
		o.source, o.numbered = sourceRead, true
	case slices.Contains(searchers, name):
		o.source = sourceSearch
	case slices.Contains(writers, name):
		o.source, o.numbered = sourceWrite, true
		for _, key := range []string{"content", "contents", "file_text", "text"} {
			if v := input.Get(key); v.Type == gjson.String {
				o.written = v.Str
				break
			}
		}
	case slices.Contains(shells, name) && (input.Type != gjson.String || content.OnlyCommands(input.Str)):
		o.command(commandIn(input))
	}
	return o
}

// bareName brings the name of a tool into the form of the lists above. What a tool
// server puts in front (mcp__files__read_file) is dropped.
func bareName(name string) string {
	if i := strings.LastIndex(name, "__"); i >= 0 {
		name = name[i+2:]
	}
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// commandIn returns the command line in the input of a shell tool.
func commandIn(input gjson.Result) string {
	if input.Type == gjson.String {
		return strings.Join(content.CommandsIn(input.Str), "\n")
	}
	for _, key := range []string{"command", "cmd", "script"} {
		switch v := input.Get(key); {
		case v.Type == gjson.String:
			return v.Str
		case v.IsArray():
			return content.ShellLine(v)
		}
	}
	return ""
}

// printing are programs whose output is text of files that stays editable.
var printing = []string{
	"cat", "sed", "head", "tail", "nl", "less", "more", "bat", "batcat", "awk", "gawk", "tac", "diff", "cut", "paste", "fold", "column", "strings",
	"git show", "git diff", "git blame", "git stash", "git cat-file", "git format-patch", "git log -p", "git log --patch", "gh pr diff", "patch", "jq", "yq",
	"open", "goto", "scroll_up", "scroll_down", "edit",
}

// searching are programs whose output is lines of files.
var searching = []string{"grep", "egrep", "fgrep", "rg", "ag", "ack", "zgrep", "git grep"}

// wrapping are words that may stand in front of a command.
var wrapping = []string{"sudo", "time", "timeout", "env", "nice", "nohup", "command", "exec", "xargs", "then", "do", "else", "&&", "!", "{", "("}

// command classes a command line. It is what its parts are: if any part prints
// a file, it reads; else if any part searches, it is a search. In a pipeline
// the first program counts, for the others only see its output. Where the parts
// cannot be told, a word that prints files decides.
func (o *origin) command(line string) {
	o.source = sourceCommand
	if line == "" {
		return
	}
	if opaque(line) {
		o.source, o.numbered = sourceRead, numbering(line)
		return
	}
	for _, part := range strings.FieldsFunc(strings.ReplaceAll(line, "||", ";"), func(r rune) bool { return r == ';' || r == '&' || r == '\n' }) {
		first, rest, _ := strings.Cut(part, "|")
		switch {
		case starting(first, printing) && !logs(first), starting(afterXargs(rest), printing):
			o.source, o.numbered = sourceRead, numbering(line)
			return
		case starting(first, searching), starting(afterXargs(rest), searching):
			o.source = sourceSearch
		}
	}
}

// opaque reports whether a command line hides programs that may print files where
// they are not looked for.
func opaque(line string) bool {
	for _, word := range []string{"open(", ".read", "readFile", "read_text", "-exec cat", "-exec sed", "-exec head", "-exec awk", "$(cat", "`cat"} {
		if strings.Contains(line, word) {
			return true
		}
	}
	for _, shell := range []string{"sh -c", "sh -lc", "ssh ", "docker exec", "kubectl exec"} {
		if strings.Contains(line, shell) && containsWord(line, "cat", "sed", "head", "tail", "nl", "awk", "less", "git show", "git diff") {
			return true
		}
	}
	return false
}

func containsWord(line string, names ...string) bool {
	for _, n := range names {
		if strings.Contains(line, n+" ") {
			return true
		}
	}
	return false
}

func afterXargs(pipeline string) string {
	_, after, _ := strings.Cut(pipeline, "xargs")
	return after
}

// starting reports whether a part of a command line runs one of some programs.
func starting(part string, programs []string) bool {
	words := strings.Fields(part)
	for len(words) > 0 && (slices.Contains(wrapping, words[0]) || strings.Contains(words[0], "=") || words[0][0] == '-' || words[0][0] >= '0' && words[0][0] <= '9') {
		words = words[1:]
	}
	if len(words) == 0 {
		return false
	}
	words[0] = strings.TrimLeft(words[0], "({")
	words[0] = words[0][strings.LastIndexByte(words[0], '/')+1:]
	if words[0] == "git" { // options in front of the subcommand
		for len(words) > 2 && strings.HasPrefix(words[1], "-") {
			n := 2
			if words[1] == "-C" || words[1] == "-c" {
				n = 3
			}
			words = append(words[:1], words[min(n, len(words)):]...)
		}
	}
	command := strings.Join(words, " ") + " "
	for _, p := range programs {
		if strings.HasPrefix(command, p+" ") {
			return true
		}
	}
	return false
}

// logs reports whether a command prints logs only, which nobody edits.
func logs(command string) bool {
	files := 0
	for _, word := range strings.Fields(command)[1:] {
		word = strings.Trim(word, `"'`)
		switch {
		case strings.HasPrefix(word, "-") || strings.HasPrefix(word, "2>") || !strings.ContainsAny(word, "./"):
		case strings.HasSuffix(word, ".log") || strings.HasSuffix(word, ".out") || strings.HasSuffix(word, ".output") ||
			strings.HasSuffix(word, ".stdout") || strings.HasSuffix(word, ".stderr") || strings.Contains(word, "/log/"):
			files++
		default:
			return false
		}
	}
	return files > 0
}

// numbering reports whether a command puts numbers in front of lines.
func numbering(line string) bool {
	return strings.Contains(line, "nl ") || strings.Contains(line, "cat -n") || strings.Contains(line, "cat -An") || strings.Contains(line, "cat -bn")
}
