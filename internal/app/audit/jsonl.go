// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// JSONL writes a line of JSON for each record. Readers must skip invalid lines, and ids that they have seen.
type JSONL struct {
	w    io.WriteCloser
	torn bool // the last write may have ended within a line
}

// NewJSONL writes to w, and closes w with the store.
func NewJSONL(w io.WriteCloser) *JSONL { return &JSONL{w: w} }

// Write implements Store.
func (j *JSONL) Write(_ context.Context, batch []*Record) error {
	var b bytes.Buffer
	// A batch that failed half way is written again, on a new line.
	if j.torn {
		b.WriteByte('\n')
	}
	for _, r := range batch {
		line, err := json.Marshal(r)
		if err != nil { // the content is invalid JSON
			bare := *r
			bare.Content = nil
			if line, err = json.Marshal(&bare); err != nil {
				return fmt.Errorf("audit: %w", err)
			}
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	_, err := j.w.Write(b.Bytes())
	j.torn = err != nil
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// Prune implements Store. It does nothing: rotation is up to the writer.
func (*JSONL) Prune(context.Context, time.Time) (int64, error) { return 0, nil }

// Close implements Store.
func (j *JSONL) Close() error { return j.w.Close() }

// JSONLFile is a source that reads a file of lines of JSON.
type JSONLFile struct{ path string }

// ReadJSONL returns a source for an existing file.
func ReadJSONL(path string) (*JSONLFile, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return &JSONLFile{path}, nil
}

// Each implements Source. Records come in the order of their ends, as they were written.
func (j *JSONLFile) Each(ctx context.Context, since time.Time, f func(*Record) error) error {
	file, err := os.Open(j.path)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	defer file.Close()
	met := map[ID]struct{}{}
	lines := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("audit: %w", err)
		}
		var r Record
		// Torn lines are skipped, and so are records of batches that were written twice.
		if json.Unmarshal(line, &r) == nil && !r.At.Before(since) {
			if _, again := met[r.ID]; !again {
				met[r.ID] = struct{}{}
				r.Content = nil
				if err := f(&r); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// Close implements Source.
func (*JSONLFile) Close() error { return nil }
