// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const (
	// maxProject bounds the name of a project, in bytes.
	maxProject = 64
	// maxSearched bounds the part of each text that is searched for a working directory, in bytes.
	maxSearched = 64 << 10
	// maxFolder bounds the path of a working directory, in bytes.
	maxFolder = 4 << 10
)

// projectOf returns the name of the project that a request is for: by the option `project`, by the
// client's own labels, or by the working directory in the prompt. It returns "" for none.
func (o *site) projectOf(r *http.Request, v *wire.View, s *sessioncache.Session) string {
	if name := o.configuredProject(r); name != "" {
		return name
	}
	if name := taggedProject(v); name != "" {
		return name
	}
	if name := codexProject(first(r.Header, headerCodexTurn)); name != "" {
		return name
	}
	known := s.Project()
	// Each later request has the same prompt. A conversation that was recognised has been searched.
	if known != "" || v.Recalled > 0 {
		return known
	}
	if known = promptProject(v); known != "" {
		s.SetProject(known)
	}
	return known
}

// configuredProject returns the first value of the option `project`.
func (o *site) configuredProject(r *http.Request) string {
	if len(o.clients.project) == 0 {
		return ""
	}
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	for _, p := range o.clients.project {
		if name := projectName(repl.ReplaceAll(p, "")); name != "" {
			return name
		}
	}
	return ""
}

// taggedProject returns the project in the tags of a request to the Messages API: the tag named
// `project`, or else the first text. Claude Code sends its setting attributionProject in a tag whose
// name the operator has chosen.
func taggedProject(v *wire.View) (name string) {
	if v.Tags.Empty() {
		return ""
	}
	gjson.ParseBytes(v.Bytes(v.Tags)).ForEach(func(key, value gjson.Result) bool {
		if value.Type == gjson.String && (name == "" || key.Str == "project") {
			name = projectName(value.Str)
		}
		return key.Str != "project"
	})
	return name
}

// headerCodexTurn is Codex's header about a turn.
const headerCodexTurn = "X-Codex-Turn-Metadata"

// codexProject returns the project in Codex's metadata of a turn. It has the repositories under the
// working directory by their paths.
func codexProject(metadata string) (name string) {
	const member = "workspaces"
	// Codex adds the repositories once git has answered, some requests later.
	if !strings.Contains(metadata, member) {
		return ""
	}
	gjson.Get(metadata, member).ForEach(func(path, repository gjson.Result) bool {
		// The folder may be a worktree, with a name of its own.
		remote := strings.TrimSuffix(repository.Get("associated_remote_urls.origin").Str, ".git")
		if name = projectName(lastElement(remote)); name == "" {
			name = projectName(lastElement(path.Str))
		}
		return name == ""
	})
	return name
}

// promptProject returns the project in a new prompt.
func promptProject(v *wire.View) string {
	if v.Traits().FlatItems { // over a WebSocket, Codex has its header in the body
		path := "client_metadata." + strings.ToLower(headerCodexTurn)
		if name := codexProject(gjson.GetBytes(v.Raw, path).Str); name != "" {
			return name
		}
	}
	for i := v.Tools; i < len(v.Blocks); i++ {
		b := &v.Blocks[i]
		// Agents tell the model where they work before its first answer.
		if b.Role == wire.RoleAssistant {
			break
		}
		if b.Kind != wire.KindText {
			continue
		}
		text := v.Bytes(b.Body)
		if name := projectName(lastElement(workingFolder(text[:min(len(text), maxSearched)]))); name != "" {
			return name
		}
	}
	return ""
}

// folderMarks stand before and after the working directory in a prompt, in the form of JSON strings. The
// directory ends with its line in any case.
var folderMarks = [...]struct{ before, after []byte }{
	{[]byte("orking directory: "), nil},             // Claude Code, opencode
	{[]byte("<cwd>"), []byte("<")},                  // Codex
	{[]byte(`Workspace Directories:**\n  - `), nil}, // Gemini CLI
	{[]byte("working in the directory: "), nil},     // programs that descend from it
	{[]byte("Working Directory ("), []byte(")")},    // Cline and programs that descend from it
}

// workingFolder returns the absolute path of the working directory in a JSON string, "" for none.
func workingFolder(text []byte) string {
	for i := range folderMarks {
		m := &folderMarks[i]
		for rest := text; ; {
			_, after, found := bytes.Cut(rest, m.before)
			if !found {
				break
			}
			if path := lineOf(after[:min(len(after), maxFolder)], m.after); isAbsolute(path) {
				return path
			}
			rest = after
		}
	}
	return ""
}

// lineOf decodes a part of a JSON string up to a mark or to the end of its line.
func lineOf(text, mark []byte) string {
	end := 0
scan:
	for end < len(text) && text[end] != '"' && (mark == nil || !bytes.HasPrefix(text[end:], mark)) {
		if text[end] != '\\' {
			end++
			continue
		}
		if end+1 == len(text) {
			break
		}
		switch text[end+1] {
		case 'n', 'r', 't':
			break scan
		}
		end += 2
	}
	var line string
	if json.Unmarshal(append(append([]byte{'"'}, text[:min(end, len(text))]...), '"'), &line) != nil {
		return ""
	}
	return line
}

// isAbsolute reports whether a text is an absolute path on any system.
func isAbsolute(path string) bool {
	return strings.HasPrefix(path, "/") || strings.HasPrefix(path, "~") || strings.HasPrefix(path, `\\`) ||
		len(path) > 2 && path[1] == ':' && (path[2] == '\\' || path[2] == '/')
}

// lastElement returns the last element of a path or URL.
func lastElement(path string) string {
	path = strings.TrimRight(path, `/\`)
	return path[strings.LastIndexAny(path, `/\:`)+1:]
}

// projectName makes a name of a client's text: printable and at most maxProject bytes. Of an absolute
// path only the last element remains, because the folders above tell of the user.
func projectName(text string) string {
	if isAbsolute(text) {
		text = lastElement(text)
	}
	if len(text) > 4*maxProject {
		text = text[:4*maxProject]
	}
	printable := func(r rune) bool { return unicode.IsPrint(r) && r != utf8.RuneError }
	if strings.ContainsFunc(text, func(r rune) bool { return !printable(r) }) {
		text = strings.Map(func(r rune) rune {
			if !printable(r) {
				return -1
			}
			return r
		}, text)
	}
	text = strings.TrimSpace(text)
	if len(text) > maxProject {
		end := maxProject
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	// The name must not keep the text that it is a part of in memory.
	return reuse.Intern([]byte(text))
}
