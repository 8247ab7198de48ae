// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Command record makes recordings of the public conversations behind the figures in docs, from the
// repositories that publish them:
//
//	go -C test run ./lab/record -out recordings
//	go -C test run ./lab/study -keepalive -folds-by repo recordings
//
// sources.txt names a commit of each repository and its transcripts. The command fetches them with
// git, one by one, and reads them like `caddy llm-cache import`. It redacts nothing: the
// transcripts are public.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/transcript"
)

// sources has a line for each repository, `owner/name commit`, and below it, indented by a
// tab, one for each transcript: its path in the repository.
//
//go:embed sources.txt
var sources string

// repository is a commit of a repository with conversations.
type repository struct {
	name, commit string
	paths        []string
}

func main() {
	out := flag.String("out", "recordings", "folder to write the recordings to; it is made if need be")
	from := flag.String("from", "https://github.com/",
		"what stands before the name of a repository where it is fetched from")
	only := flag.String("only", "", "the one repository to take, as owner/name; all if empty")
	flag.Parse()
	if err := run(*out, *from, *only); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(out, from, only string) error {
	repositories, err := parse(sources)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o700); err != nil {
		return err
	}
	conversations, calls, unreadable := 0, 0, 0
	for _, r := range repositories {
		if only != "" && r.name != only {
			continue
		}
		sessions, failed, err := r.record(out, from)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		n := 0
		for _, s := range sessions {
			n += s.Calls()
		}
		fmt.Printf("%-32s %4d transcripts %4d conversations %6d requests\n", r.name, len(r.paths), len(sessions), n)
		conversations, calls, unreadable = conversations+len(sessions), calls+n, unreadable+failed
	}
	fmt.Printf("%d conversations with %d requests in %s, %d transcripts could not be read\n", conversations, calls, out,
		unreadable)
	if conversations == 0 {
		return errors.New("no conversation was recorded")
	}
	return nil
}

// parse reads a list of sources.
func parse(list string) ([]repository, error) {
	var all []repository
	for i, line := range strings.Split(strings.TrimRight(list, "\n"), "\n") {
		path, indented := strings.CutPrefix(line, "\t")
		switch words := strings.Fields(line); {
		case indented && len(all) > 0:
			last := &all[len(all)-1]
			last.paths = append(last.paths, path)
		case !indented && len(words) == 2:
			all = append(all, repository{name: words[0], commit: words[1]})
		default:
			return nil, fmt.Errorf("sources.txt:%d: neither a repository and a commit nor a path below one", i+1)
		}
	}
	return all, nil
}

// record fetches the commit and writes the recordings of its transcripts. It returns the number of
// unreadable ones as well.
func (r repository) record(out, from string) (all []*transcript.Session, failed int, err error) {
	work, err := os.MkdirTemp("", "record")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(work)
	if _, err := git(work, "init", "-q", "--bare"); err != nil {
		return nil, 0, err
	}
	if _, err := git(work, "remote", "add", "origin", from+r.name); err != nil {
		return nil, 0, err
	}
	// The blobs are fetched on demand.
	if _, err := git(work, "fetch", "-q", "--depth", "1", "--filter", "blob:none", "origin", r.commit); err != nil {
		return nil, 0, err
	}
	for _, path := range r.paths {
		sessions, err := r.read(work, path)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %s: %v\n", r.name, path, err)
			failed++
			continue
		}
		for _, s := range sessions {
			for _, p := range s.Parts {
				p.Header.Repo = r.name
			}
			if err := s.Save(out); err != nil {
				return nil, 0, err
			}
		}
		all = append(all, sessions...)
	}
	return all, failed, nil
}

// read reads a transcript of the commit.
func (r repository) read(work, path string) ([]*transcript.Session, error) {
	b, err := git(work, "show", r.commit+":"+path)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(work, "transcript.jsonl")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return nil, err
	}
	found, err := transcript.Scan(file)
	if err != nil {
		return nil, err
	}
	var all []*transcript.Session
	for _, s := range found {
		sessions, err := s.Read()
		if err != nil {
			return nil, err
		}
		all = append(all, sessions...)
	}
	return all, nil
}

// git runs git in a folder and returns its output.
func git(folder string, args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = folder
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return b, nil
}
