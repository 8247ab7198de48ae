// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Over the recorded conversations in Codex's form: a parse with known blocks equals one without, no
// edits yield the same bytes, and the API accepts a body with every output replaced and every
// removable sentence removed.
func TestCodexTraces(t *testing.T) {
	if testing.Short() {
		t.Skip("reads half a gigabyte")
	}
	files := testkit.RecordingFiles(t)
	var blocks, recalled, edited int
	for _, file := range files {
		trace, err := recording.OpenTrace(file)
		if err != nil {
			t.Fatal(err)
		}
		c := newCodex(setting{session: "s", tools: []tool{{"a", "b"}}}, "gpt-5.4")
		var known *wire.Known
		for n := 0; ; n++ {
			call, err := trace.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			Sign(call.Messages)
			c.Add(call.Messages)
			if n%5 > 0 && n > 3 {
				continue
			}
			body := c.Body()
			v, err := wire.Parse(wire.OpenAIResponses, body, func(first wire.Hash) *wire.Known {
				if known == nil || known.First() != first {
					return nil
				}
				return known
			})
			if err != nil {
				t.Fatalf("%s: request %d: %v", file, n, err)
			}
			cold, err := wire.Parse(wire.OpenAIResponses, body, nil)
			if err != nil || !slices.Equal(v.Blocks, cold.Blocks) || !slices.Equal(v.Messages, cold.Messages) {
				t.Fatalf("%s: request %d: recalled another view (%v)", file, n, err)
			}
			known = v.Known()
			blocks, recalled = blocks+len(v.Blocks), recalled+v.Recalled
			edited += splice(t, v)
		}
		trace.Close()
	}
	if recalled*100 < blocks*60 || edited == 0 {
		t.Errorf("%d of %d blocks were recalled, %d edits made", recalled, blocks, edited)
	}
}

// splice checks the invariants of any splice of a view, and returns the number of its edits.
func splice(t *testing.T, v *wire.View) int {
	t.Helper()
	if same, err := v.Splice(nil); err != nil || !bytes.Equal(same, v.Raw) {
		t.Fatalf("no edits changed the body: %v", err)
	}
	var edits []wire.Edit
	for i := range v.Blocks {
		b := &v.Blocks[i]
		switch {
		case b.Kind == wire.KindToolResult && !b.Body.Empty():
			edits = append(edits, wire.Edit{Block: i, Op: wire.OpReplace, Value: []byte(`"stub"`)})
		case b.Kind == wire.KindText && b.Role == wire.RoleAssistant && v.Removable(i) && calls(v, b.Message):
			edits = append(edits, wire.Edit{Block: i, Op: wire.OpRemove})
		}
	}
	out, err := v.Splice(edits)
	if err != nil {
		t.Fatal(err)
	}
	w, err := wire.Parse(wire.OpenAIResponses, out, nil)
	if err != nil {
		t.Fatalf("cannot be read any more: %v", err)
	}
	if _, refused := pricing.NewSimulator(pricing.SimulatorConfig{}).Begin(pricing.Call{
		View: w,
		At:   time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
	}); refused != nil {
		t.Fatalf("refused: %v", refused)
	}
	return len(edits)
}

// calls reports whether a message contains a call.
func calls(v *wire.View, message int32) bool {
	m := &v.Messages[message]
	return slices.ContainsFunc(v.Blocks[m.First:m.End], func(b wire.Block) bool { return b.Kind == wire.KindToolUse })
}

// TestCodexItems: the next request contains an answer in the items that Items has returned.
func TestCodexItems(t *testing.T) {
	c := newCodex(setting{session: "s"}, "gpt-x")
	var said, answer recording.Message
	for m, text := range map[*recording.Message]string{
		&said: `{"role":"user","content":[{"type":"text","text":"Count the boats."}]}`,
		&answer: `{"role":"assistant","content":[{"type":"thinking","thinking":"Boats, \u003cthen\u003e.",` +
			`"signature":"Zw=="},{"type":"text","text":"Counting."},` +
			`{"type":"tool_use","id":"b1","name":"bash","input":{"command":"ls"}},{"type":"thinking","thinking":"Done?",` +
			`"signature":"aA=="}]}`,
	} {
		if err := json.Unmarshal([]byte(text), m); err != nil {
			t.Fatal(err)
		}
	}
	c.Add([]recording.Message{said})
	before := bytes.Clone(c.items)
	if items := c.Items(&recording.Message{Role: "assistant"}); len(items) > 0 {
		t.Errorf("of an answer without content: %s", items)
	}
	items := c.Items(&answer)
	if !bytes.Equal(c.items, before) {
		t.Error("asking has changed what was said")
	}
	c.Add([]recording.Message{answer})
	var want []string
	for _, item := range gjson.Parse("[" + string(c.items) + "]").Array()[1:] {
		want = append(want, item.Raw)
	}
	if len(items) != 3 || len(want) != 3 {
		t.Fatalf("%d items, and %d were sent", len(items), len(want))
	}
	for i := range want {
		if string(items[i]) != want[i] {
			t.Errorf("%s was sent as %s", items[i], want[i])
		}
	}
}
