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

// source is the origin of a tool result's text. It selects the rules of admission: an edit can
// quote a line of a file that was read, but hardly a line of build output.
type source uint8

const (
	sourceOther   source = 1 << iota // pages, sub-agents, unknown tools
	sourceRead                       // files, whole or in part, and diffs of files
	sourceSearch                     // lines of files found by a search
	sourceWrite                      // the report of a tool after writing a file
	sourceCommand                    // output of programs
)

// origin holds the facts about a result besides its text.
type origin struct {
	source source
	// numbered reports whether the lines of a file may have line numbers.
	numbered bool
	// written is the text that the call wrote to a file, "" if it wrote none.
	written string
	// failed reports whether the tool reported an error.
	failed bool
}

// Names of tools, in lower case and without separators.
var (
	readers = []string{
		"read", "readfile", "fileread", "fsread", "readmanyfiles", "readfiles", "view", "viewfile", "open", "openfile",
		"cat", "getfile",
		"getfilecontents", "notebookread", "readnotebook", "scrollup", "scrolldown", "goto", "readtextfile", "readmediafile",
	}
	searchers = []string{
		"grep", "greptool", "rg", "ripgrep", "grepsearch", "search", "searchfiles", "searchfilecontent",
		"searchdir", "searchfile", "codesearch",
	}
	writers = []string{
		"write", "writefile", "writetofile", "filewrite", "create", "createfile", "edit", "editfile", "multiedit", "replace",
		"replaceinfile", "strreplace", "insert", "notebookedit", "strreplaceeditor", "strreplacebasededittool",
	}
	shells = []string{
		"bash", "shell", "sh", "zsh", "powershell", "exec", "execcommand", "execute", "executecommand", "executebash", "run",
		"runcommand",
		"runshellcommand", "runterminalcmd", "runinterminal", "terminal", "command", "containerexec", "localshell",
		"bashoutput", "writestdin", "unifiedexec",
	}
)

// originOfResult returns the origin of a tool result.
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

// originOf returns the origin of a call's result.
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

// bareName converts a tool's name to the form of the lists above. It drops the prefix of a tool
// server, as in mcp__files__read_file.
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

// printing are programs that print the text of editable files.
var printing = []string{
	"cat", "sed", "head", "tail", "nl", "less", "more", "bat", "batcat", "awk", "gawk", "tac", "diff", "cut", "paste",
	"fold", "column", "strings",
	"git show", "git diff", "git blame", "git stash", "git cat-file", "git format-patch", "git log -p", "git log --patch",
	"gh pr diff", "patch", "jq", "yq",
	"open", "goto", "scroll_up", "scroll_down", "edit",
}

// searching are programs that print lines of files.
var searching = []string{"grep", "egrep", "fgrep", "rg", "ag", "ack", "zgrep", "git grep"}

// wrapping are words that may precede a command.
var wrapping = []string{
	"sudo", "time", "timeout", "env", "nice", "nohup", "command", "exec", "xargs", "then", "do",
	"else", "&&", "!", "{", "(",
}

// command classifies a command line by its parts. If any part prints a file, the line is a read;
// else if any part searches, it is a search.
func (o *origin) command(line string) {
	o.source = sourceCommand
	if line == "" {
		return
	}
	// The parts of such a line are unknown. A word that prints files decides.
	if opaque(line) {
		o.source, o.numbered = sourceRead, numbering(line)
		return
	}
	for _, part := range strings.FieldsFunc(strings.ReplaceAll(line, "||", ";"),
		func(r rune) bool { return r == ';' || r == '&' || r == '\n' }) {
		// In a pipeline the first program counts: the others only see its output.
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

// opaque reports whether a command line hides programs that may print files.
func opaque(line string) bool {
	for _, word := range []string{
		"open(", ".read", "readFile", "read_text", "-exec cat", "-exec sed", "-exec head",
		"-exec awk", "$(cat", "`cat",
	} {
		if strings.Contains(line, word) {
			return true
		}
	}
	for _, shell := range []string{"sh -c", "sh -lc", "ssh ", "docker exec", "kubectl exec"} {
		if strings.Contains(line, shell) && containsWord(line, "cat", "sed", "head", "tail", "nl", "awk", "less", "git show",
			"git diff") {
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
	for len(words) > 0 && (slices.Contains(wrapping, words[0]) || strings.Contains(words[0], "=") || words[0][0] == '-' ||
		words[0][0] >= '0' && words[0][0] <= '9') {
		words = words[1:]
	}
	if len(words) == 0 {
		return false
	}
	words[0] = strings.TrimLeft(words[0], "({")
	words[0] = words[0][strings.LastIndexByte(words[0], '/')+1:]
	if words[0] == "git" { // options before the subcommand
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

// logs reports whether a command prints only logs, which no agent edits.
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

// numbering reports whether a command adds line numbers.
func numbering(line string) bool {
	return strings.Contains(line, "nl ") || strings.Contains(line, "cat -n") || strings.Contains(line, "cat -An") ||
		strings.Contains(line, "cat -bn")
}
