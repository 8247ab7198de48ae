// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// bodies returns all bodies of a trace from an agent.
func bodies(t *testing.T, path string, agent func(setting) Agent) []string {
	t.Helper()
	found, err := recording.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := recording.OpenTrace(path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	var c Agent
	var out []string
	for {
		call, err := trace.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if c == nil {
			c = agent(newSetting(found[0], &trace.Header, call))
		}
		Sign(call.Messages)
		c.Add(call.Messages)
		body := string(c.Body())
		if !json.Valid([]byte(body)) {
			t.Fatalf("request %d is not JSON: %s", len(out), body)
		}
		out = append(out, body)
	}
}

const (
	gardener = "../testdata/traces/gardener-11111111-p1.jsonl"
	ferry    = "../testdata/traces/ferry-22222222-p1.jsonl"
)

func claude(long bool) func(setting) Agent {
	return func(s setting) Agent {
		return newClaudeCode(s, claudeShape{model: "claude-x", long: long, adaptive: true})
	}
}

// Ids differ between parts, and the metadata change their order. All else stays the same, and for
// the model everything does.
func TestCodexBytes(t *testing.T) {
	got := bodies(t, ferry, func(s setting) Agent { return newCodex(s, "gpt-x") })
	const (
		head   = `{"model":"gpt-x","stream":true,"instructions":"You count things.\nBe exact.","input":[`
		prompt = `{"type":"message","id":"msg_P1","role":"user","content":[{"type":"input_text","text":"Count the boats."}]}`
		answer = `,{"type":"message","id":"msg_P2","role":"assistant","content":[{"type":"output_text",` +
			`"text":"Counting."}]}` +
			`,{"type":"function_call","id":"fc_P3","name":"bash","arguments":"{\"command\":\"ls boats | wc -l\"}",` +
			`"call_id":"b1"}` +
			`,{"type":"function_call_output","id":"fco_P4","call_id":"b1","output":[{"type":"input_text","text":"7"},` +
			`{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="}]}`
		tail = `],"tools":[{"type":"function","name":"bash","description":"Tool bash.","strict":false,` +
			`"parameters":{"type":"object"}}],"tool_choice":"auto","parallel_tool_calls":true,` +
			`"reasoning":{"effort":"medium"},"store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":"S",` +
			`"client_metadata":`
	)
	want := []string{
		head + prompt + tail + `{"turn_id":"1","session_id":"S"}}`,
		head + prompt + answer + tail + `{"session_id":"S","turn_id":"2"}}`,
		head + prompt + answer +
			`,{"type":"message","id":"msg_P5","role":"assistant","content":[{"type":"output_text","text":"Seven."}]}` +
			`,{"type":"message","id":"msg_P6","role":"user","content":[{"type":"input_text","text":"And the oars?"},` +
			`{"type":"input_text","text":"All of them."}]}` +
			tail + `{"turn_id":"3","session_id":"S"}}`,
	}
	sum := sha256.Sum256([]byte("Count the boats."))
	for i := range want {
		w := strings.ReplaceAll(want[i], "_P", "_"+hex.EncodeToString(sum[:4]))
		if w = strings.ReplaceAll(w, `"S"`, `"`+sessionID("22222222-ferry")+`"`); got[i] != w {
			t.Errorf("request %d:\n%s\nwant\n%s", i, got[i], w)
		}
	}
}

// The marker moves. A lone text of the user is an array while it has the marker, and a plain string
// afterwards. Nothing else changes.
func TestClaudeCodeBytes(t *testing.T) {
	const mark = `"cache_control":{"type":"ephemeral"}`
	got := bodies(t, ferry, claude(false))
	tail := `],"system":[{"type":"text","text":"You count things."},{"type":"text","text":"Be exact.",` + mark + `}],` +
		`"tools":[{"name":"bash","description":"Tool bash.","input_schema":{"type":"object"}}],` +
		`"metadata":{"user_id":"{\"device_id\":\"` + strings.Repeat("0", 64) + `\",\"account_uuid\":\"\",\"session_id\":\"` +
		sessionID("22222222-ferry") + `\"}"},` +
		`"max_tokens":32000,"thinking":{"type":"adaptive"},` +
		`"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},` +
		`"output_config":{"effort":"high"},"stream":true}`
	const (
		head = `{"model":"claude-x","messages":[`
		call = `{"role":"assistant","content":[{"type":"text","text":"Counting."},{"type":"tool_use","id":"b1",` +
			`"name":"bash","input":{"command":"ls boats | wc -l"}}]},`
		result = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"b1","content":[{"type":"text","text":"7"},` +
			`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]`
	)
	want := []string{
		head + `{"role":"user","content":[{"type":"text","text":"Count the boats.",` + mark + `}]}` + tail,
		head + `{"role":"user","content":"Count the boats."},` + call + result + `,` + mark + `}]}` + tail,
		head + `{"role":"user","content":"Count the boats."},` + call + result + `}]},` +
			`{"role":"assistant","content":[{"type":"text","text":"Seven."}]},` +
			`{"role":"user","content":[{"type":"text","text":"And the oars?"},{"type":"text","text":"All of them.",` + mark +
			`}]}` + tail,
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("request %d:\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
}

// Each request extends the previous one, block by block, and has the three markers of Claude Code.
func TestClaudeCodeIsAppendOnly(t *testing.T) {
	var before *wire.View
	for i, body := range bodies(t, gardener, claude(true)) {
		v, err := wire.Parse(wire.Anthropic, []byte(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		markers := 0
		for j := range v.Blocks {
			if m := v.Blocks[j].Marker; !m.Empty() {
				markers++
				if v.Text(m) != `{"type":"ephemeral","ttl":"1h"}` {
					t.Errorf("request %d: marker %s", i, v.Text(m))
				}
			}
		}
		if markers != 3 || v.Blocks[len(v.Blocks)-1].Marker.Empty() {
			t.Errorf("request %d: %d markers", i, markers)
		}
		if before != nil {
			for j := range before.Blocks {
				if before.Blocks[j].Hash != v.Blocks[j].Hash {
					t.Fatalf("request %d: block %d has changed", i, j)
				}
			}
		}
		before = v
	}
}

// Unrecorded parts are replaced by fillers of the same size, most of it in the tools.
func TestFiller(t *testing.T) {
	body := bodies(t, gardener, claude(false))[0]
	v, err := wire.Parse(wire.Anthropic, []byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	tools, system := 0, 0
	for i := range v.Blocks[:v.System] {
		if n := v.Blocks[i].Span.Len(); i < v.Tools {
			tools += n
		} else {
			system += n
		}
	}
	// 2700 tokens at 0.27 tokens a character, and the frame around them.
	if all := tools + system; all < 10_000 || all > 11_000 || tools < 2*system {
		t.Errorf("%d characters of tools and %d of system", tools, system)
	}
}

func TestChatBytes(t *testing.T) {
	got := bodies(t, ferry, func(s setting) Agent {
		return newChat(s, chatShape{model: "gpt-x", cacheKey: true})
	})
	const head = `{"model":"gpt-x","max_tokens":32000,"messages":[{"role":"system","content":"You count things.\nBe ` +
		`exact."},` +
		`{"role":"user","content":"Count the boats."}`
	tail := `],"tools":[{"type":"function","function":{"name":"bash","description":"Tool bash.",` +
		`"parameters":{"type":"object"}}}],"tool_choice":"auto",` +
		`"prompt_cache_key":"` + sessionID("22222222-ferry") + `","stream":true,"stream_options":{"include_usage":true}}`
	const second = `,{"role":"assistant","content":"Counting.","tool_calls":[{"id":"b1","type":"function",` +
		`"function":{"name":"bash","arguments":"{\"command\":\"ls boats | wc -l\"}"}}]},` +
		`{"role":"tool","tool_call_id":"b1","content":"7"},` +
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}`
	const third = `,{"role":"assistant","content":"Seven."},` +
		`{"role":"user","content":[{"type":"text","text":"And the oars?"},{"type":"text","text":"All of them."}]}`
	for i, want := range []string{head + tail, head + second + tail, head + second + third + tail} {
		if got[i] != want {
			t.Errorf("request %d:\n%s\nwant\n%s", i, got[i], want)
		}
	}
}

// Only open models get their thinking back, and an answer of calls alone has no text.
func TestChatReasoning(t *testing.T) {
	for _, reasoning := range []bool{false, true} {
		got := bodies(t, gardener, func(s setting) Agent {
			return newChat(s, chatShape{model: "m", reasoning: reasoning})
		})
		body := got[len(got)-1]
		if strings.Contains(body, `"reasoning_content":"I look at the folder first."`) != reasoning {
			t.Errorf("reasoning %t: %s", reasoning, body[:400])
		}
		if !strings.Contains(body, `{"role":"assistant","content":null,`) || strings.Contains(body, "signature") {
			t.Error("an answer of calls alone, or a signature, is not as it should be")
		}
	}
}

// Thinking without a recorded signature gets the signature that the simulated model streams.
func TestSignedThinking(t *testing.T) {
	got := bodies(t, gardener, claude(false))
	body := got[len(got)-1]
	if !strings.Contains(body, `"signature":"c2lnbmVk"}`) {
		t.Error("the recorded signature is gone")
	}
	if want := `"thinking":"The line in plan.py is number 7.","signature":"` +
		simulator.Sign("The line in plan.py is number 7.") + `"}`; !strings.Contains(body, want) {
		t.Error("the missing signature was not made up")
	}
}
