// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/compressor"
)

func init() { caddy.RegisterModule(compressor.Embedded{}) }

// surfer returns a session that fetches pages, pauses until caches expire, and continues. Its last
// answer edits a file by a line of the first page.
func surfer(t *testing.T) string {
	t.Helper()
	const line = "The page with a number tells of a meeting that was long and that nobody liked at all."
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	write := func(v any) {
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	text := func(s string) []any { return []any{map[string]any{"type": "text", "text": s}} }
	write(map[string]any{"agent": "claude-code", "session": "33333333", "part": 1, "parts": 1, "model": "m"})
	write(map[string]any{"t": 0, "messages": []any{map[string]any{"role": "user", "content": text("Read all pages.")}}})
	for i := range 9 {
		at := 10 * (i + 1)
		if i > 6 {
			at += 900
		}
		id, page := fmt.Sprint("toolu_", i), strings.Repeat(line+"\n", 8)
		input := fmt.Sprintf(`{"url":"https://example.com/%d"}`, i)
		name := "WebFetch"
		if i == 8 {
			quoted, _ := json.Marshal(line)
			name, input, page = "Edit", `{"file_path":"/a.md","old_string":`+string(quoted)+`,"new_string":"b"}`, "done"
		}
		write(map[string]any{"t": at, "messages": []any{
			map[string]any{"role": "assistant", "content": []any{map[string]any{
				"type": "tool_use", "id": id, "name": name,
				"input": json.RawMessage(input),
			}}},
			map[string]any{"role": "user", "content": []any{map[string]any{
				"type": "tool_result", "tool_use_id": id,
				"content": page,
			}}},
		}})
	}
	path := filepath.Join(t.TempDir(), "claude-code-33333333-p1.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWords: compression has the same cost and blocks in each run, and without a compressor none.
func TestWords(t *testing.T) {
	path := surfer(t)
	const others = `"prune":{"mode":"off"},"admission":{"mode":"off"}`
	with := `{"features":{"compress":{"compressor":{"module":"embedded","model":"../../lingua/testdata/models/bert"}}},` +
		others + `}`
	plain := replayed(t, Options{Handler: []byte("{" + others + "}")}, path).Runs[0].Total
	report := replayed(t, Options{Handler: []byte(with)}, path)
	words := report.Runs[0].Total
	if plain.Words != (Words{}) || plain.Fired["compress"] != 0 {
		t.Errorf("without a compressor: %+v", plain.Words)
	}
	if w := words.Words; w.Texts != 4 || w.Blocks != 19 || w.Tokens == 0 || words.Fired["compress"] == 0 {
		t.Errorf("with one: %+v, %v", w, words.Fired)
	}
	if words.Cost >= plain.Cost || words.FailedOpen+words.Rejected > 0 {
		t.Errorf("cost %v, without %v: %+v", words.Cost, plain.Cost, words)
	}
	var text bytes.Buffer
	if err := report.WriteText(&text); err != nil ||
		!strings.Contains(text.String(), "words were left out of 4 of 19 blocks (21.05 %)") {
		t.Errorf("%v: %s", err, text.String())
	}
	if again := replayed(t, Options{Handler: []byte(with)}, path).Runs[0].Total; again.Cost != words.Cost ||
		again.Words != words.Words {
		t.Errorf("another run: %+v", again)
	}
	conversations, err := recording.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	for handler, want := range map[string]string{
		`{"features":{"compress":{"rate":0.4}}}`:                                           "no compressor",
		`{"features":{"compress":{"compressor":{"module":"embedded","model":"nowhere"}}}}`: "config.json",
		`{"features":{"compress":{"compressor":{"module":"foo"}}}}`:                        "unknown module",
	} {
		if _, err := Run(t.Context(), conversations, Options{Handler: []byte(handler)}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", handler, err)
		}
	}
}
