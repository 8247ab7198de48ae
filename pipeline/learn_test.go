// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// TestLearnedAtOnce makes sure that a conversation learned whole, as after a restart, has the same
// facts as one learned request by request.
func TestLearnedAtOnce(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(62, seed))
		s := newScript(t, Options{Policy: Observe}, keeping)
		s.head = `"max_tokens":9,`
		s.prompt("Fix the bug.")
		for i := range 80 {
			s.send(wire.Turn{Text: "unrelated words", Done: true})
			switch random.IntN(8) {
			case 0:
				s.final("Done. It was [llm_cache: folded].")
				s.prompt("Go on. " + []string{"", "[llm_cache: 3 lines left out]"}[random.IntN(2)])
			case 1: // two calls, whose results come together
				s.turn(i, "/src/a.go", long("a"))
				s.turn(100+i, "/src/a_test.go", "short")
			case 2: // an edit
				s.add(fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"t%d","name":"Edit","input":{`+
					`"file_path":"/src/b.go","old_string":%s,"new_string":"y"}}]}`, i, content.Quote(long("b"))))
				s.add(fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":"ok"}]}`, i))
			default:
				s.turn(i, fmt.Sprintf("/src/file%d.go", random.IntN(8)), long(fmt.Sprint("f", random.IntN(8))))
			}
		}
		x := s.send(wire.Turn{})
		whole := newScript(t, Options{Policy: Observe}, keeping)
		whole.messages, whole.head = s.messages, s.head
		y := whole.send(wire.Turn{})
		again := 0
		for i := range x.req.States {
			got, want := learned(&y.req.States[i]), learned(&x.req.States[i])
			if got != want {
				t.Fatalf("seed %d, block %d of %d: at once\n%+v\nrequest by request\n%+v", seed, i, len(x.req.States), got, want)
			}
			again += int(got.Again)
		}
		if again == 0 {
			t.Errorf("seed %d: no line came again", seed)
		}
	}
}

// learned returns the part of a state that depends on the conversation only, not on its answers.
func learned(s *sessioncache.BlockState) sessioncache.BlockState {
	return sessioncache.BlockState{
		Trait: s.Trait, Path: s.Path, File: s.File, Turn: s.Turn, Task: s.Task, Replaced: s.Replaced, Sampled: s.Sampled,
		Again: s.Again, Source: s.Source, Class: s.Class, Whole: s.Whole, Shell: s.Shell, Test: s.Test, Quotes: s.Quotes,
	}
}

// BenchmarkFirst measures the first request of a conversation of a megabyte, as after a restart: all
// of it is parsed and learned.
func BenchmarkFirst(b *testing.B) {
	for _, f := range []wire.Format{wire.Anthropic, wire.OpenAIChat} {
		raw := firstRequest(b, f, 1<<20)
		b.Run(string(f), func(b *testing.B) {
			begin := newBeginner(b)
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				begin(f, raw)
			}
		})
	}
}

// newBeginner returns a function that begins and abandons the first request of a conversation.
func newBeginner(tb testing.TB) func(wire.Format, []byte) {
	tb.Helper()
	s := newScript(tb, Options{}, binding)
	m, err := sessioncache.New(sessioncache.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return func(f wire.Format, raw []byte) {
		v, err := wire.Parse(f, raw, nil)
		if err != nil {
			tb.Fatal(err)
		}
		session := m.Acquire(tb.Context(), sessioncache.Key{ID: "s"})
		s.p.Begin(v, session, s.now).Close()
		m.Release(session)
	}
}

// firstRequest returns a request with excerpts of source files, with numbered lines, as results.
func firstRequest(tb testing.TB, f wire.Format, size int) []byte {
	tb.Helper()
	messages := []string{`{"role":"user","content":"Fix the build."}`}
	for i, text := range excerpts(tb, size) {
		result := content.Quote(text)
		if f == wire.Anthropic {
			messages = append(messages, fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":"Reading on."},`+
				`{"type":"tool_use","id":"t%d","name":"Read","input":{"file_path":"/src/file%d.go"}}]},{"role":"user",`+
				`"content":[{"type":"tool_result","tool_use_id":"t%d","content":%s}]}`, i, i, i, result))
		} else {
			messages = append(messages, fmt.Sprintf(`{"role":"assistant","content":"Reading on.","tool_calls":[{"id":"t%d",`+
				`"type":"function","function":{"name":"Read","arguments":"{\"file_path\":\"/src/file%d.go\"}"}}]},{"role":"tool",`+
				`"tool_call_id":"t%d","content":%s}`, i, i, i, result))
		}
	}
	return []byte(`{"model":"m","max_tokens":9,"messages":[` + strings.Join(messages, ",") + `]}`)
}

// excerpts returns the repository's source files in parts of 80 numbered lines, size bytes in all.
func excerpts(tb testing.TB, size int) (all []string) {
	tb.Helper()
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
		tb.Fatal(err)
	}
	return all
}
