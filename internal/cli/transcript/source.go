// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Source is a file with conversations, or one conversation of a database.
type Source struct {
	// Agent is the program that wrote the source.
	Agent string
	// Path is the file.
	Path string
	// Session is the conversation, if the file has many.
	Session string
	// Bytes is the size of the source.
	Bytes int64
}

type agent struct {
	name string
	// folders are its folders below the home folder, unless variable is set.
	folders []string
	// variable is the environment variable that replaces the first part of folders.
	variable string
	// owns reports whether a file below such a folder is a conversation.
	owns func(path string) bool
	// knows reports whether the start of a file is written by this agent.
	knows func(start []byte) bool
	// list returns the conversations of a file that may have many.
	list func(path string) ([]Source, error)
	// read reads a source.
	read func(s Source) ([]*Session, error)
}

var agents = []agent{
	{
		name: "claude-code", folders: []string{".claude/projects", ".config/claude/projects"}, variable: "CLAUDE_CONFIG_DIR",
		owns: jsonLines, knows: knowsClaudeCode, read: lineByLine(readClaudeCode),
	},
	{
		name: "codex", folders: []string{".codex/sessions", ".codex/archived_sessions"}, variable: "CODEX_HOME",
		owns: isRollout, knows: knowsCodex, read: lineByLine(readCodex),
	},
	{
		name: "opencode", folders: []string{".local/share/opencode"}, owns: isOpencode, knows: knowsOpencode,
		list: listOpencode, read: readOpencode,
	},
	{name: "pi", folders: []string{".pi/agent/sessions"}, owns: jsonLines, knows: knowsPi, read: lineByLine(readPi)},
	{name: "gemini-cli", folders: []string{".gemini/tmp"}, owns: isGeminiChat, knows: knowsGemini, read: readGemini},
}

func jsonLines(path string) bool { return strings.HasSuffix(path, ".jsonl") }

// Agents returns the names of the supported agents.
func Agents() []string {
	names := make([]string, len(agents))
	for i := range agents {
		names[i] = agents[i].name
	}
	return names
}

// Discover finds the conversations of all agents in a home folder. getenv returns the variables
// with other folders; it may be nil.
func Discover(home string, getenv func(string) string) ([]Source, error) {
	var all []Source
	for i := range agents {
		a := &agents[i]
		for _, folder := range a.folders {
			root := filepath.Join(home, filepath.FromSlash(folder))
			if getenv != nil && a.variable != "" {
				if elsewhere := getenv(a.variable); elsewhere != "" {
					root = filepath.Join(elsewhere, filepath.Base(folder))
				}
			}
			found, err := a.walk(root)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return sorted(all), nil
}

// Scan finds the conversations of any agent in files and folders. An unknown file among the
// arguments is an error. Within folders unknown files are skipped.
func Scan(paths ...string) ([]Source, error) {
	var all []Source
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("transcripts: %w", err)
		}
		if info.IsDir() {
			found, err := walk(path, sniff)
			if err != nil {
				return nil, fmt.Errorf("transcripts: %w", err)
			}
			all = append(all, found...)
			continue
		}
		found, err := sniff(path, info.Size())
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("transcripts: %s is of none of %s", path, strings.Join(Agents(), ", "))
		}
		all = append(all, found...)
	}
	return sorted(all), nil
}

func sorted(all []Source) []Source {
	slices.SortFunc(all, func(a, b Source) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Session, b.Session))
	})
	// Newer versions of an agent copy files into a database. The database sorts first and wins.
	named := map[[2]string]bool{}
	return slices.DeleteFunc(slices.Compact(all), func(s Source) bool {
		key := [2]string{s.Agent, s.Session}
		again := s.Session != "" && named[key]
		named[key] = true
		return again
	})
}

func (a *agent) walk(root string) ([]Source, error) {
	return walk(root, func(path string, size int64) ([]Source, error) {
		if !a.owns(path) {
			return nil, nil
		}
		return a.sources(path, size)
	})
}

// walk collects the sources in the files below a folder.
func walk(root string, in func(path string, size int64) ([]Source, error)) ([]Source, error) {
	// The folder and its files may be symbolic links.
	if target, err := filepath.EvalSymlinks(root); err == nil {
		root = target
	}
	var out []Source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return skipUnreadable(err)
		}
		info, err := os.Stat(path)
		// Other file types are skipped: reading a pipe could block for ever.
		if err != nil || !info.Mode().IsRegular() {
			return skipUnreadable(err)
		}
		found, err := in(path, info.Size())
		out = append(out, found...)
		return skipUnreadable(err)
	})
	return out, err
}

// skipUnreadable ignores the error of a file that is missing or unreadable.
func skipUnreadable(error) error { return nil }

func (a *agent) sources(path string, size int64) ([]Source, error) {
	if a.list != nil {
		return a.list(path)
	}
	return []Source{{Agent: a.name, Path: path, Bytes: size}}, nil
}

// sniffed is the length of a file's start that identifies the agent, in bytes.
const sniffed = 16 << 10

func sniff(path string, size int64) ([]Source, error) {
	if isOpencode(path) {
		return listOpencode(path)
	}
	if ext := filepath.Ext(path); ext != ".jsonl" && ext != ".json" {
		return nil, nil
	}
	start, err := beginning(path)
	if err != nil {
		return nil, err
	}
	if isRecording(start) {
		return nil, nil
	}
	for i := range agents {
		if a := &agents[i]; a.knows(start) {
			return a.sources(path, size)
		}
	}
	return nil, nil
}

func beginning(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("transcript: %w", err)
	}
	defer f.Close()
	start := make([]byte, sniffed)
	n, err := f.Read(start)
	if n == 0 {
		return nil, skipUnreadable(err)
	}
	return start[:n], nil
}

// Read reads a source. It leaves out conversations without an answered request.
func (s Source) Read() ([]*Session, error) {
	i := slices.IndexFunc(agents, func(a agent) bool { return a.name == s.Agent })
	if i < 0 {
		return nil, fmt.Errorf("transcript %s: agent must be one of %s, got %q",
			s.Path, strings.Join(Agents(), ", "), s.Agent)
	}
	sessions, err := agents[i].read(s)
	if err != nil {
		return nil, fmt.Errorf("transcript %s: %w", s.Path, err)
	}
	var out []*Session
	for _, one := range sessions {
		if one.Calls() > 0 {
			one.Agent, one.Path = s.Agent, s.Path
			for _, p := range one.Parts {
				p.Header.Agent = s.Agent
			}
			out = append(out, one)
		}
	}
	return out, nil
}
