// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// recorded is one conversation, call by call.
type recorded struct {
	file  string
	calls [][]json.RawMessage
}

func readRecorded(t testing.TB) []recorded {
	t.Helper()
	files := testkit.RecordingFiles(t)
	out := make([]recorded, 0, len(files))
	for _, file := range files {
		r, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(z)
		lines.Buffer(nil, 64<<20)
		lines.Scan() // the header
		c := recorded{file: filepath.Base(file)}
		for lines.Scan() {
			var entry struct {
				Messages []json.RawMessage `json:"messages"`
			}
			if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
				t.Fatal(err)
			}
			c.calls = append(c.calls, entry.Messages)
		}
		r.Close()
		out = append(out, c)
	}
	return out
}
