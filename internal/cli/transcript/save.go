// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// unsafe are the characters of a session's id that a file name does without.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Save writes the conversation to a folder as recordings that replay takes, a file for each
// part, named by agent, session and part.
func (s *Session) Save(folder string) error {
	for i, p := range s.Parts {
		name := fmt.Sprintf("%s-%s-p%d.jsonl.gz", s.Agent, fileName(s.ID), i+1)
		file, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		z := gzip.NewWriter(file)
		if err := errors.Join(p.Write(z), z.Close(), file.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// longestName bounds, in bytes, what a session's id takes of a file name: most file
// systems take 255.
const longestName = 128

// fileName is a session's id as a part of a file name. One that is too long ends in its hash.
func fileName(id string) string {
	name := unsafe.ReplaceAllString(id, "_")
	if len(name) > longestName {
		sum := sha256.Sum256([]byte(id))
		name = fmt.Sprintf("%s-%x", name[:longestName-33], sum[:16])
	}
	return name
}

// Redact replaces what looks like a key or a token in all parts.
func (s *Session) Redact() {
	for _, p := range s.Parts {
		p.Redact()
	}
}
