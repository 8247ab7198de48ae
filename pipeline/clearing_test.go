// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// call is one round: a tool, and the length of its result.
type call struct {
	tool string
	size int
}

// readCalls returns n rounds of Read with results of 4,000 bytes, estimated here as a thousand
// tokens.
func readCalls(n int) []call { return slices.Repeat([]call{{"Read", 4000}}, n) }

func perFour(_ wire.Kind, bytes int) float64 { return float64(bytes) / 4 }

// conversation is a request with orders: human prompts, each followed by thinking and rounds.
func conversation(t *testing.T, edits string, tasks ...[]call) *content.History {
	t.Helper()
	var m []string
	n := 0
	for _, calls := range tasks {
		m = append(m, `{"role":"user","content":"Go on."}`)
		for i, c := range calls {
			thought := ""
			if i == 0 {
				thought = `{"type":"thinking","thinking":"hm","signature":"s"},`
			}
			m = append(m,
				fmt.Sprintf(`{"role":"assistant","content":[%s{"type":"tool_use","id":"t%d","name":%q,"input":{"file_path":"/a/%d","more":"0123456789"}}]}`, thought, n, c.tool, n),
				fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":%q}]}`, n, strings.Repeat("x", c.size)))
			n++
		}
	}
	body := `{"model":"m","context_management":{"edits":[` + edits + `]},"messages":[` + strings.Join(m, ",") + `]}`
	v, err := wire.Parse(wire.Anthropic, []byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &request{History: content.History{View: v, Blocks: v.MessageBlocks(), States: sessioncache.NewBlockStates(len(v.MessageBlocks()))}}
	r.learn()
	return &r.History
}

// order carries out the orders of a request.
func order(h *content.History) {
	m := h.View.Management()
	editCleared(h, &m, perFour, func(i int, op wire.Op, value []byte) {
		h.States[i].Edit = &sessioncache.Edit{Stage: stage.Clearing, Op: op, Value: value}
	})
}

// gone lists the cleared results by their number.
func gone(t *testing.T, h *content.History) (out []int) {
	t.Helper()
	n := 0
	for i := range h.Blocks {
		if h.Blocks[i].Kind != wire.KindToolResult {
			continue
		}
		if e := h.States[i].Edit; e != nil {
			if string(e.Value) != `"[Old tool result content cleared]"` || e.Op != wire.OpReplace {
				t.Errorf("result %d: %s", n, e.Value)
			}
			out = append(out, n)
		}
		n++
	}
	return out
}

func TestResults(t *testing.T) {
	tokens := func(n int) string {
		return fmt.Sprintf(`,"trigger":{"type":"input_tokens","value":%d}`, n)
	}
	mixed := []call{{"Read", 4000}, {"Memory", 4000}, {"Bash", 4000}, {"Memory", 4000}, {"Read", 4000}, {"Read", 4000}}
	for _, c := range []struct {
		name  string
		more  string
		calls []call
		want  []int
	}{
		{name: "the API's own trigger, not reached", calls: readCalls(90)},
		{name: "the API's own trigger and keep", calls: readCalls(100), want: upTo(97)},
		{name: "tokens, not reached", more: tokens(9000), calls: readCalls(8)},
		{name: "tokens", more: tokens(8000), calls: readCalls(8), want: upTo(5)},
		{name: "calls, not reached", more: `,"trigger":{"type":"tool_uses","value":8}`, calls: readCalls(8)},
		{name: "calls", more: `,"trigger":{"type":"tool_uses","value":7}`, calls: readCalls(8), want: upTo(5)},
		{name: "keep", more: tokens(1000) + `,"keep":{"type":"tool_uses","value":6}`, calls: readCalls(8), want: upTo(2)},
		{name: "keep more than there is", more: tokens(1000) + `,"keep":{"type":"tool_uses","value":9}`, calls: readCalls(8)},
		{name: "what the model has not read stays", more: tokens(1000) + `,"keep":{"type":"tool_uses","value":0}`, calls: readCalls(8), want: upTo(7)},
		{name: "enough", more: tokens(1000) + `,"clear_at_least":{"type":"input_tokens","value":4900}`, calls: readCalls(8), want: upTo(5)},
		{name: "not enough", more: tokens(1000) + `,"clear_at_least":{"type":"input_tokens","value":5000}`, calls: readCalls(8)},
		{name: "excluded", more: tokens(1000) + `,"keep":{"type":"tool_uses","value":1},"exclude_tools":["Memory"]`, calls: mixed, want: []int{0, 2, 4}},
		{name: "shorter than the placeholder", more: tokens(100) + `,"keep":{"type":"tool_uses","value":1}`, calls: []call{{"Read", 20}, {"Read", 4000}, {"Read", 20}, {"Read", 20}}, want: []int{1}},
	} {
		h := conversation(t, `{"type":"clear_tool_uses_20250919"`+c.more+`}`, c.calls)
		order(h)
		if got := gone(t, h); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v cleared, not %v", c.name, got, c.want)
		}
		s := sumCleared(h, perFour)
		if s.ToolUses != int64(len(c.want)) || s.Thinking != 0 || (s.Tokens > 0) != (len(c.want) > 0) || s.Tokens > int64(1000*len(c.want)) || s.Tokens < int64(990*len(c.want)) {
			t.Errorf("%s: told %+v", c.name, s)
		}
	}
}

// Another order, or none, clears nothing.
func TestNoOrder(t *testing.T) {
	for _, edits := range []string{``, `{"type":"clear_thinking_20251015","keep":"all"}`, `{"type":"clear_thinking_20251015"}`, `{"type":"clear_tool_uses_20990101"}`, `7`} {
		h := conversation(t, edits, readCalls(200))
		order(h)
		for i := range h.States {
			if h.States[i].Edit != nil {
				t.Fatalf("%s: block %d is cleared", edits, i)
			}
		}
	}
}

func TestInputs(t *testing.T) {
	for inputs, want := range map[string]string{`false`: "", `true`: "Read Bash ", `["Bash"]`: "Bash "} {
		h := conversation(t, `{"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":100},"keep":{"type":"tool_uses","value":1},"exclude_tools":["Memory"],"clear_tool_inputs":`+inputs+`}`,
			[]call{{"Read", 4000}, {"Bash", 4000}, {"Memory", 4000}, {"Read", 4000}})
		order(h)
		got := ""
		for i := range h.Blocks {
			if b := &h.Blocks[i]; b.Kind == wire.KindToolUse && h.States[i].Edit != nil {
				if got += h.View.Text(b.Name) + " "; string(h.States[i].Edit.Value) != "{}" {
					t.Errorf("an input becomes %s", h.States[i].Edit.Value)
				}
			}
		}
		if got != want || sumCleared(h, perFour).ToolUses != 2 {
			t.Errorf("%s: inputs of %q are cleared, not of %q", inputs, got, want)
		}
	}
}

func TestThinking(t *testing.T) {
	for keep, want := range map[int]int64{1: 2, 2: 1, 3: 0, 9: 0} {
		h := conversation(t, fmt.Sprintf(`{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":%d}}`, keep), readCalls(2), readCalls(1), readCalls(2))
		order(h)
		last := int64(0) // tasks without their thinking
		for i := range h.Blocks {
			if e := h.States[i].Edit; e != nil {
				if !content.IsThinking(&h.Blocks[i]) || e.Op != wire.OpRemove {
					t.Errorf("keep %d: %s is cleared", keep, h.Blocks[i].Kind)
				}
				last = int64(h.States[i].Task)
			}
		}
		if s := sumCleared(h, perFour); s.Thinking != want || last != want || s.ToolUses != 0 || s.Tokens != s.ThinkingTokens {
			t.Errorf("keep %d: %+v, up to that of task %d", keep, s, last)
		}
	}
}

func upTo(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}
