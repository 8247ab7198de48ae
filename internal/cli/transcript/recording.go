// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/tidwall/gjson"
)

// maxLine bounds one call of a trace, in bytes: no API accepts a longer body.
const maxLine = 32 << 20

// Trace reads a trace line by line. Close it after use.
type Trace struct {
	// Header is the first line.
	Header Header

	path  string
	line  int
	file  *os.File
	lines *bufio.Scanner
	calls []*Call // of a part in memory, without a file
}

// OpenTrace opens a trace, as JSON Lines with or without gzip, and reads its header.
func OpenTrace(path string) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	t := &Trace{path: path, file: f}
	if err := t.start(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return t, nil
}

func (t *Trace) start() error {
	buffered := bufio.NewReader(t.file)
	var from io.Reader = buffered
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return fmt.Errorf("trace %s: %w", t.path, err)
		}
		from = z
	}
	t.lines = bufio.NewScanner(from)
	t.lines.Buffer(make([]byte, 64<<10), maxLine)
	if err := t.read(&t.Header); err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("trace %s: is empty", t.path)
		}
		return err
	}
	if t.Header.Session == "" {
		return fmt.Errorf("trace %s: the header names no session", t.path)
	}
	return nil
}

func (t *Trace) read(into any) error {
	if !t.lines.Scan() {
		if err := t.lines.Err(); err != nil {
			return fmt.Errorf("trace %s: line %d: %w", t.path, t.line+1, err)
		}
		return io.EOF
	}
	t.line++
	if err := json.Unmarshal(t.lines.Bytes(), into); err != nil {
		return fmt.Errorf("trace %s: line %d: %w", t.path, t.line, err)
	}
	return nil
}

// Next reads the next call. The error is io.EOF after the last one.
func (t *Trace) Next() (*Call, error) {
	if t.file == nil {
		if len(t.calls) == 0 {
			return nil, io.EOF
		}
		c := *t.calls[0]
		t.calls, t.line = t.calls[1:], t.line+1
		c.Messages = slices.Clone(c.Messages) // callers may change them
		for i := range c.Messages {
			c.Messages[i].Content = slices.Clone(c.Messages[i].Content)
		}
		return &c, nil
	}
	c := new(Call)
	if err := t.read(c); err != nil {
		return nil, err
	}
	if len(c.Messages) == 0 || c.Messages[len(c.Messages)-1].Role != "user" {
		return nil, fmt.Errorf("trace %s: line %d: a call must end with a user message", t.path, t.line)
	}
	for i := range c.Messages {
		if m := &c.Messages[i]; len(m.Content) == 0 || (m.Role != "user" && m.Role != "assistant") {
			return nil, fmt.Errorf("trace %s: line %d: message %d is empty or of an unknown role", t.path, t.line, i)
		}
	}
	return c, nil
}

// Where returns the position of the last line read, for messages.
func (t *Trace) Where() string { return fmt.Sprintf("%s: line %d", t.path, t.line) }

func isRecording(start []byte) bool {
	return gjson.GetBytes(start, "session").Type == gjson.String && !gjson.GetBytes(start, "type").Exists()
}

// Close closes the file, if any.
func (t *Trace) Close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
