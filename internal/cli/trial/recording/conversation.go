// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package recording reads recorded conversations and the transcripts of agents.
package recording

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/transcript"
)

// Conversation is one recorded session: all its traces in order of time.
type Conversation struct {
	// Name identifies the conversation briefly: the agent, and the beginning of the session's id,
	// or all of it if the beginning is ambiguous.
	Name string
	// Session is the session id.
	Session string
	// Agent is the program of the conversation, and Repo its repository, as owner/name.
	Agent string
	// Repo: see Agent.
	Repo string
	// Parts are the paths of its traces, none for an agent's own transcript.
	Parts []string
	// Calls is the number of requests.
	Calls int
	// Tools are the names of the tools used, sorted.
	Tools []string
	// Overhead is the length of the unrecorded system prompt and tool definitions, in characters.
	Overhead int

	transcript *transcript.Session
}

// Find reads files and folders of traces and groups them by session, sorted by name. In a folder it
// reads all files ending in .jsonl or .jsonl.gz. Transcripts of agents are read directly, from
// subfolders too.
func Find(paths ...string) ([]*Conversation, error) {
	var all []*Conversation
	var files []string
	for _, path := range paths {
		recorded, err := transcripts(path)
		if err != nil {
			return nil, err
		}
		if all = append(all, recorded...); len(recorded) > 0 {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("traces: %w", err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("traces: %w", err)
		}
		for _, e := range entries {
			if name := e.Name(); !e.IsDir() && (strings.HasSuffix(name, ".jsonl") || strings.HasSuffix(name, ".jsonl.gz")) {
				files = append(files, filepath.Join(path, name))
			}
		}
	}
	if len(files)+len(all) == 0 {
		return nil, fmt.Errorf("traces: none in %s", strings.Join(paths, ", "))
	}
	grouped, err := group(files)
	if err != nil {
		return nil, err
	}
	all = append(all, grouped...)
	named := map[string]int{}
	for _, c := range all {
		named[c.Name]++
	}
	for _, c := range all {
		if named[c.Name] > 1 {
			c.Name = c.Agent + "-" + c.Session
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all, nil
}

func transcripts(path string) ([]*Conversation, error) {
	sources, err := transcript.Scan(path)
	if err != nil { // a trace, or missing
		return nil, nil //nolint:nilerr // whoever reads it as a trace says what it is
	}
	var out []*Conversation
	for _, s := range sources {
		sessions, err := s.Read()
		if err != nil {
			return nil, err
		}
		for _, one := range sessions {
			out = append(out, FromTranscript(one))
		}
	}
	return out, nil
}

// FromTranscript converts an agent's transcript to a conversation.
func FromTranscript(s *transcript.Session) *Conversation {
	parts := make([]*part, len(s.Parts))
	for i, p := range s.Parts {
		parts[i] = &part{head: p.Header, tools: map[string]bool{}}
		for _, c := range p.Calls {
			parts[i].add(c)
		}
	}
	c := assemble(parts)
	c.Parts, c.transcript = nil, s
	return c
}

// Traces calls each with the parts in order.
func (c *Conversation) Traces(each func(*Trace) error) error {
	if c.transcript != nil {
		for _, p := range c.transcript.Parts {
			if err := each(p.Trace(c.transcript.Path)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, path := range c.Parts {
		t, err := OpenTrace(path)
		if err != nil {
			return err
		}
		if err := errors.Join(each(t), t.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Fold returns the number of a session's fold, from 1 to k. It depends on the session id alone, so
// that a fold keeps its sessions when others are added.
func Fold(session string, k int) int {
	sum := sha256.Sum256([]byte(session))
	return int(binary.BigEndian.Uint64(sum[:8])%uint64(k)) + 1
}

// Owner returns the repository's owner, usually the user of the conversation.
func (c *Conversation) Owner() string {
	owner, _, _ := strings.Cut(c.Repo, "/")
	return owner
}

type part struct {
	path  string
	head  Header
	calls int
	tools map[string]bool
}

func group(files []string) ([]*Conversation, error) {
	sessions := map[string][]*part{}
	for _, path := range files {
		p, err := look(path)
		if err != nil {
			return nil, err
		}
		sessions[p.head.Session] = append(sessions[p.head.Session], p)
	}
	all := make([]*Conversation, 0, len(sessions))
	for _, parts := range sessions {
		all = append(all, assemble(parts))
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all, nil
}

func look(path string) (*part, error) {
	t, err := OpenTrace(path)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	p := &part{path: path, head: t.Header, tools: map[string]bool{}}
	for {
		c, err := t.Next()
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if err != nil {
			return nil, err
		}
		p.add(c)
	}
}

func (p *part) add(c *Call) {
	p.calls++
	for i := range c.Messages {
		for _, b := range c.Messages[i].Content {
			if b.Type == "tool_use" {
				p.tools[b.Name] = true
			}
		}
	}
}

// fillerTokens is the number of tokens of package pricing for a character of a system prompt.
const fillerTokens = 0.27

func assemble(parts []*part) *Conversation {
	sort.Slice(parts, func(i, j int) bool {
		a, b := parts[i].head, parts[j].head
		return a.Offset < b.Offset || a.Offset == b.Offset && a.Part < b.Part
	})
	head := parts[0].head
	c := &Conversation{
		Name: head.Agent + "-" + head.Session[:min(8, len(head.Session))], Session: head.Session,
		Agent: head.Agent, Repo: head.Repo,
	}
	tools := map[string]bool{}
	overhead := 0.0
	for _, p := range parts {
		c.Parts = append(c.Parts, p.path)
		c.Calls += p.calls
		for name := range p.tools {
			tools[name] = true
		}
		overhead += p.head.Fit.Overhead * float64(p.calls)
	}
	for name := range tools {
		c.Tools = append(c.Tools, name)
	}
	slices.Sort(c.Tools)
	if c.Calls > 0 && len(head.System) == 0 {
		// The mean of the parts: a client does not change prompt and tools within a session.
		c.Overhead = max(0, int(overhead/float64(c.Calls)/fillerTokens))
	}
	return c
}
