// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// traceBodies calls f with the body of every request of every recorded conversation, with the
// client's moving marker.
func traceBodies(t testing.TB, f func(file string, call int, body []byte)) {
	t.Helper()
	for _, file := range testkit.RecordingFiles(t) {
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
		body := []byte(`{"model":"m","messages":[`)
		for call := 0; lines.Scan(); call++ {
			var entry struct {
				Messages []json.RawMessage `json:"messages"`
			}
			if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
				t.Fatal(err)
			}
			for i, m := range entry.Messages {
				if call+i > 0 {
					body = append(body, ',')
				}
				body = append(body, m...)
			}
			full := append(body[:len(body):len(body)], `],"system":[{"type":"text","text":"s"}],"tools":[{"name":"a"}]}`...)
			if i := bytes.LastIndex(full, []byte("}]}],")); i > 0 {
				full = append(full[:i:i], append([]byte(`,"cache_control":{"type":"ephemeral"}`), full[i:]...)...)
			}
			f(filepath.Base(file), call, full)
		}
		r.Close()
	}
}

// For every recorded request: the splice invariant holds, and a parse with recall gives the same
// view as one without.
func TestTraces(t *testing.T) {
	if testing.Short() {
		t.Skip("reads half a gigabyte")
	}
	var known *wire.Known
	last := ""
	var blocks, recalled int
	traceBodies(t, func(file string, call int, body []byte) {
		if file != last {
			last, known = file, nil
		}
		v, err := wire.Parse(wire.Anthropic, body, func(wire.Hash) *wire.Known { return known })
		if err != nil {
			t.Fatalf("%s call %d: %v", file, call, err)
		}
		if known != nil {
			checkShared(t, v, known, 0)
		}
		known = v.Known()
		blocks, recalled = blocks+len(v.Blocks), recalled+v.Recalled
		if call%10 != 0 {
			return
		}
		cold, err := wire.Parse(wire.Anthropic, body, nil)
		if err != nil {
			t.Fatalf("%s call %d: %v", file, call, err)
		}
		sameViews(t, v, cold)
		checkSplice(t, v)
	})
	if recalled*100 < blocks*95 {
		t.Errorf("only %d of %d blocks were recalled", recalled, blocks)
	}
}

// growing returns two consecutive bodies of a conversation of at least size bytes.
func growing(size int) (before, after []byte) {
	turn := func(i int, marker string) string {
		b, _ := json.Marshal(string(bytes.Repeat([]byte("     1→\tfunc main() { fmt.Println(\"hello\") }\n"), 40)))
		id := string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		return `,{"role":"assistant","content":[{"type":"text","text":"Let me look."},{"type":"tool_use","id":"` + id +
			`","name":"Read","input":{"file_path":"/x/` + id + `"}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":` + string(b) + marker + `}]}`
	}
	const marker = `,"cache_control":{"type":"ephemeral"}`
	head, tail := `{"model":"m","messages":[{"role":"user","content":"go"}`,
		`],"system":[{"type":"text","text":"s"}],"tools":[{"name":"Read"}],"stream":true}`
	i := 0
	for ; len(head) < size; i++ {
		head += turn(i, "")
	}
	return []byte(head + turn(i, marker) + tail), []byte(head + turn(i, "") + turn(i+1, marker) + tail)
}

func benchmarkParse(b *testing.B, size int, recall bool) {
	before, after := growing(size)
	v, err := wire.Parse(wire.Anthropic, before, nil)
	if err != nil {
		b.Fatal(err)
	}
	f := func(wire.Hash) *wire.Known { return v.Known() }
	if !recall {
		f = nil
	}
	b.SetBytes(int64(len(after)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Parse(wire.Anthropic, after, f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for name, size := range map[string]int{"2KB": 2 << 10, "200KB": 200 << 10, "1MB": 1 << 20} {
		b.Run(name+"/cold", func(b *testing.B) { benchmarkParse(b, size, false) })
		b.Run(name+"/known", func(b *testing.B) { benchmarkParse(b, size, true) })
	}
}
