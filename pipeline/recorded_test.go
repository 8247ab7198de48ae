// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package pipeline

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// recorded is one conversation, call by call.
type recorded struct {
	file  string
	calls [][]json.RawMessage
}

func readRecorded(t *testing.T) []recorded {
	t.Helper()
	folder := os.Getenv("LLM_CACHE_TRACES")
	if folder == "" {
		folder = "../../shared/traces"
	}
	files, _ := filepath.Glob(filepath.Join(folder, "*.jsonl.gz"))
	if len(files) == 0 {
		t.Skip("no recorded conversations beside the module")
	}
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
