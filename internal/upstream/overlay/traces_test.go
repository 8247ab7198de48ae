// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/overlay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// TestTraces: prompts of recorded conversations continue the previous prompt, in chat completions
// as translated, and in Messages untranslated.
func TestTraces(t *testing.T) {
	files := testkit.RecordingFiles(t)
	for i, file := range files {
		if i%4 > 0 {
			continue
		}
		for _, format := range []wire.Format{wire.OpenAIChat, wire.Anthropic} {
			replay(t, file, format)
		}
	}
}

func replay(t *testing.T, file string, format wire.Format) {
	t.Helper()
	store, name := overlay.NewStore(lru.NewPool[string](overlay.DefaultMemory), nil), filepath.Base(file)
	diverged, calls := 0, 0
	requests(t, file, func(body []byte) bool {
		calls++
		if format != wire.Anthropic {
			out, err := translate.Convert(wire.Anthropic, format, translate.Incoming{Body: body, Path: "/v1/messages"},
				translate.Options{})
			if err != nil {
				t.Fatal(err)
			}
			body = out.Body.Bytes()
		}
		x, err := store.Begin(overlay.Conversation{Session: "s"},
			overlay.Request{Format: format, Body: body, Rules: overlay.LocalServer, At: time.Now()})
		if err != nil {
			t.Fatalf("%s, request %d: %v", name, calls, err)
		}
		if calls%10 == 0 && !json.Valid(x.Body) {
			t.Fatalf("%s, request %d: not JSON", name, calls)
		}
		if x.Divergence != nil {
			diverged++
		}
		x.Commit(&wire.Turn{Done: true}, false)
		return calls < 60
	})
	// A few of the recorded clients rewrote their history.
	if diverged > calls/10+1 {
		t.Errorf("%s as %s: %d of %d requests do not go on from the one before", name, format, diverged, calls)
	}
}

// requests calls f with each body of a recorded conversation until it returns false.
func requests(t *testing.T, file string, f func(body []byte) bool) {
	t.Helper()
	r, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	z, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 64<<20)
	lines.Scan() // the header
	body := []byte(`{"model":"m","max_tokens":1,"system":"You are careful.","tools":[{"name":"Bash",` +
		`"input_schema":{"type":"object"}}],"messages":[`)
	for lines.Scan() {
		var entry struct {
			Messages []json.RawMessage `json:"messages"`
		}
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			t.Fatal(err)
		}
		if last := len(body) - 1; body[last] != '[' && len(entry.Messages) > 0 {
			body = append(body, ',')
		}
		for i, m := range entry.Messages {
			if i > 0 {
				body = append(body, ',')
			}
			body = append(body, m...)
		}
		if !f(append(bytes.Clone(body), `]}`...)) {
			return
		}
	}
}

// FuzzBegin: every request stays valid JSON, and a retry gives the same bytes.
func FuzzBegin(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","messages":[{"role":"system","content":"x-anthropic-billing-header: a\nS\nToday's date: ` +
			`1\n\ngitStatus:\nM a"},{"role":"user","content":[{"type":"text","text":"<system-reminder>\n# ` +
			`currentDate\n2\n</system-reminder>"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"1",` +
			`"type":"function","function":{"name":"A","arguments":"{\"x\":1}"}}]},{"role":"tool","tool_call_id":"1",` +
			`"content":"one\n\n<system-reminder>\n<total_tokens>9 tokens left</total_tokens>\n</system-reminder>"},` +
			`{"role":"system","content":"Plan"}],"tools":[{"type":"function","function":{"name":"A","parameters":{}}}]}`,
		`{"model":"m","system":[{"type":"text","text":"x-anthropic-billing-header: a"},{"type":"text","text":"S",` +
			`"cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"tool_result",` +
			`"tool_use_id":"1","content":[]},{"type":"text","text":"<total_tokens>9 tokens left</total_tokens>"}]},` +
			`{"role":"system","content":[{"type":"text","text":"<total_tokens>9 tokens left</total_tokens>"}]},` +
			`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"A","input":{ "x":1}}]}],"tools":[{"name":"A",` +
			`"input_schema":{}},{"name":"B"}]}`,
		`{"messages":[{"role":"user","content":[]},{"role":"system","content":""},{"role":"system","content":"a"}]}`,
	} {
		f.Add([]byte(seed), []byte(seed))
	}
	rules := overlay.LocalServer
	rules.LateTools = true
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for _, format := range []wire.Format{wire.OpenAIChat, wire.Anthropic} {
			store := overlay.NewStore(lru.NewPool[string](overlay.DefaultMemory), nil)
			for _, body := range [][]byte{first, second, first} {
				q := overlay.Request{Format: format, Body: body, Rules: rules, At: time.Unix(1e9, 0)}
				x, err := store.Begin(overlay.Conversation{Session: "s"}, q)
				if err != nil {
					continue
				}
				again, err := store.Begin(overlay.Conversation{Session: "s"}, q)
				if err != nil || !bytes.Equal(x.Body, again.Body) {
					t.Fatalf("%s\nand then (%v)\n%s", x.Body, err, again.Body)
				}
				if json.Valid(body) && !json.Valid(x.Body) {
					t.Fatalf("%s\nbecame\n%s", body, x.Body)
				}
				if !json.Valid(body) { // upstreams refuse it, so the store keeps nothing
					continue
				}
				x.Commit(&wire.Turn{Done: true, Text: "Hi", Thinking: "Hm", Calls: []wire.Call{{Name: "A", Arguments: `{"x": 1}`}}},
					true)
			}
		}
	})
}

// BenchmarkBegin measures the next request of a growing conversation of about 200 KB, a sixth of it tools.
func BenchmarkBegin(b *testing.B) {
	for name, counter := range map[string]string{
		"unchanged": "",
		"parsed":    "",
		"edited":    `,{"role":"system","content":"<total_tokens>9 tokens left</total_tokens>"}`,
	} {
		b.Run(name, func(b *testing.B) {
			bodies := growing(160<<10, 32, counter)
			views := make([]*wire.View, len(bodies))
			for i := range views {
				if name == "parsed" {
					views[i], _ = wire.Parse(wire.OpenAIChat, bodies[i], nil)
				}
			}
			var store *overlay.Store
			b.SetBytes(int64(len(bodies[0])))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				step := i % len(bodies)
				q := overlay.Request{
					Format: wire.OpenAIChat, Body: bodies[step], View: views[step], Rules: overlay.LocalServer, At: time.Now(),
				}
				if step == 0 {
					b.StopTimer()
					store = overlay.NewStore(lru.NewPool[string](overlay.DefaultMemory), nil)
				}
				x, err := store.Begin(overlay.Conversation{Session: "s"}, q)
				if err != nil || x.Edited != (counter != "") || step > 0 && x.Common < 0.9 {
					b.Fatal(x.Edited, x.Common, err)
				}
				x.Commit(&wire.Turn{Done: true}, false)
				if x.Edited {
					reuse.Recycle(x.Body)
				}
				if step == 0 {
					b.StartTimer()
				}
			}
		})
	}
}

// growing returns the requests of a conversation in chat completions. The first one has the given size, without
// the tools. Each result is followed by the messages end.
func growing(size, steps int, end string) (bodies [][]byte) {
	var tools, messages bytes.Buffer
	for i := range 17 {
		fmt.Fprintf(&tools, `,{"type":"function","function":{"name":"tool_%d","description":%q,"parameters":{"type":"object",`+
			`"properties":{"path":{"type":"string"}},"required":["path"]}}}`, i, strings.Repeat("what the tool does ", 100))
	}
	messages.WriteString(`{"model":"m","messages":[{"role":"system","content":"You are an agent."},` +
		`{"role":"user","content":"Find out why the build fails."}`)
	for i := 0; len(bodies) < steps; i++ {
		fmt.Fprintf(&messages, `,{"role":"assistant","content":"Reading on.","tool_calls":[{"id":"call_%d","type":"function",`+
			`"function":{"name":"tool_0","arguments":"{\"path\":\"src/file_%d.go\"}"}}]},{"role":"tool",`+
			`"tool_call_id":"call_%d","content":"%s"}%s`, i, i, i, strings.Repeat(`a line of a file\n`, 60+i%5*80), end)
		if messages.Len() >= size {
			bodies = append(bodies, fmt.Appendf(nil, `%s],"tools":[%s],"stream":true}`, &messages, tools.Bytes()[1:]))
		}
	}
	return bodies
}
