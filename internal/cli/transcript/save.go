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

// unsafe matches the characters of session ids that file names leave out.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Save writes the conversation to a folder as recordings for replay. There is a file for each part,
// named by agent, session and part.
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

// maxName bounds a session's id in a file name: most file systems accept 255 bytes in all.
const maxName = 128

// fileName returns a session's id for a file name.
func fileName(id string) string {
	name := unsafe.ReplaceAllString(id, "_")
	if len(name) > maxName {
		// A cut id may occur twice.
		sum := sha256.Sum256([]byte(id))
		name = fmt.Sprintf("%s-%x", name[:maxName-33], sum[:16])
	}
	return name
}

// Redact replaces keys and tokens in all parts.
func (s *Session) Redact() {
	for _, p := range s.Parts {
		p.Redact()
	}
}
