// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// BenchmarkFirst measures the first request of a conversation of a megabyte, as after a restart: all
// of it is parsed and learned. The results are excerpts of source files with numbered lines.
func BenchmarkFirst(b *testing.B) {
	texts := excerpts(b, 1<<20)
	for _, f := range []struct {
		format wire.Format
		prompt string
		turn   func(i int, result string) string
	}{
		{wire.Anthropic, `{"role":"user","content":"Fix the build."}`, func(i int, result string) string {
			return fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":"Reading on."},{"type":"tool_use",`+
				`"id":"t%d","name":"Read","input":{"file_path":"/src/file%d.go"}}]},{"role":"user","content":[`+
				`{"type":"tool_result","tool_use_id":"t%d","content":%s}]}`, i, i, i, result)
		}},
		{wire.OpenAIChat, `{"role":"user","content":"Fix the build."}`, func(i int, result string) string {
			return fmt.Sprintf(`{"role":"assistant","content":"Reading on.","tool_calls":[{"id":"t%d","type":"function",`+
				`"function":{"name":"Read","arguments":"{\"file_path\":\"/src/file%d.go\"}"}}]},{"role":"tool",`+
				`"tool_call_id":"t%d","content":%s}`, i, i, i, result)
		}},
	} {
		messages := []string{f.prompt}
		for i, text := range texts {
			messages = append(messages, f.turn(i, string(content.Quote(text))))
		}
		raw := []byte(`{"model":"m","max_tokens":9,"messages":[` + strings.Join(messages, ",") + `]}`)
		b.Run(string(f.format), func(b *testing.B) {
			s := newScript(b, Options{}, binding)
			m, err := sessioncache.New(sessioncache.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				v, err := wire.Parse(f.format, raw, nil)
				if err != nil {
					b.Fatal(err)
				}
				session := m.Acquire(b.Context(), sessioncache.Key{ID: "s"})
				s.p.Begin(v, session, s.now).Close()
				m.Release(session)
			}
		})
	}
}

// excerpts returns the repository's source files in parts of 80 numbered lines, size bytes in all.
func excerpts(b *testing.B, size int) (all []string) {
	b.Helper()
	err := filepath.WalkDir("..", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".go" {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var part strings.Builder
		n := 0
		for line := range strings.Lines(string(text)) {
			if n++; n%80 == 1 {
				part.Reset()
			}
			fmt.Fprintf(&part, "%6d\t%s", n, line)
			if n%80 > 0 {
				continue
			}
			all = append(all, part.String())
			if size -= part.Len(); size < 0 {
				return fs.SkipAll
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return all
}
