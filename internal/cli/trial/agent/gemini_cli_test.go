// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func geminiAgent(s setting) Agent { return newGeminiCLI(s) }

func TestGeminiBytes(t *testing.T) {
	got := bodies(t, ferry, geminiAgent)
	head := `{"contents":[{"role":"user","parts":[{"text":"<session_context>\nThis is the environment of session ` +
		sessionID("22222222-ferry") + `.\n</session_context>"}]},` +
		`{"role":"user","parts":[{"text":"Count the boats."}]}`
	const tail = `],"systemInstruction":{"role":"user","parts":[{"text":"You count things.\nBe exact."}]},` +
		`"tools":[{"functionDeclarations":[{"name":"bash","description":"Tool bash.",` +
		`"parametersJsonSchema":{"type":"object"}}]}],` +
		`"generationConfig":{"temperature":1,"topP":0.95,"topK":64,"thinkingConfig":{"includeThoughts":true}}}`
	second := `,{"role":"model","parts":[{"text":"Counting."},{"functionCall":{"id":"b1","name":"bash",` +
		`"args":{"command":"ls boats | wc -l"}},` +
		`"thoughtSignature":"` + simulator.Sign(`bash {"command":"ls boats | wc -l"}`) + `"}]},` +
		`{"role":"user","parts":[{"functionResponse":{"id":"b1","name":"bash","response":{"output":"7"}}},` +
		`{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}`
	const third = `,{"role":"model","parts":[{"text":"Seven."}]},{"role":"user","parts":[{"text":"And the oars?"},` +
		`{"text":"All of them."}]}`
	for i, want := range []string{head + tail, head + second + tail, head + second + third + tail} {
		if got[i] != want {
			t.Errorf("request %d:\n%s\nwant\n%s", i, got[i], want)
		}
	}
}

// Over every recorded request in the form of Gemini CLI: no edits leave the body unchanged. A body
// with an edit in every possible place is valid and keeps all other bytes, the signed parts above
// all. A parse with known blocks equals one without.
func TestGeminiOverRecordedConversations(t *testing.T) {
	if testing.Short() {
		t.Skip("reads half a gigabyte")
	}
	conversations, err := recording.Find(testkit.RecordingFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	n, blocks, recalled, signed := 0, 0, 0, 0
	for _, c := range conversations {
		for _, path := range c.Parts {
			var known *wire.Known
			eachBody(t, c, path, func(body []byte) {
				v, err := wire.Parse(wire.Gemini, body, func(wire.Hash) *wire.Known { return known })
				if err != nil {
					t.Fatalf("%s: %v", c.Name, err)
				}
				known = v.Known()
				blocks, recalled = blocks+len(v.Blocks), recalled+v.Recalled
				if n++; n%10 == 0 {
					signed += spliced(t, v)
				}
			})
		}
	}
	if recalled*100 < blocks*95 {
		t.Errorf("only %d of %d blocks were recalled", recalled, blocks)
	}
	if signed == 0 {
		t.Error("no part was signed: this shows nothing")
	}
}

// eachBody calls f with each request of a trace.
func eachBody(t *testing.T, c *recording.Conversation, path string, f func(body []byte)) {
	t.Helper()
	trace, err := recording.OpenTrace(path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	var agent Agent
	for {
		call, err := trace.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if agent == nil {
			agent = newGeminiCLI(newSetting(c, &trace.Header, call))
		}
		agent.Add(call.Messages)
		f(agent.Body())
	}
}

// spliced checks the splice invariants on a view, and returns the number of its signed blocks.
func spliced(t *testing.T, v *wire.View) (signed int) {
	t.Helper()
	if same, err := v.Splice(nil); err != nil || !bytes.Equal(same, v.Raw) {
		t.Fatalf("without edits it has changed: %v", err)
	}
	cold, err := wire.Parse(wire.Gemini, v.Raw, nil)
	if err != nil || len(cold.Blocks) != len(v.Blocks) {
		t.Fatalf("%d blocks are recalled as %d: %v", len(cold.Blocks), len(v.Blocks), err)
	}
	var edits []wire.Edit
	edited := make(map[int]bool)
	for i := range v.Blocks {
		b := &v.Blocks[i]
		if *b != cold.Blocks[i] {
			t.Fatalf("block %d is recalled as another: %+v, %+v", i, *b, cold.Blocks[i])
		}
		if b.Has(wire.FlagSigned) {
			signed++
			continue
		}
		switch b.Kind {
		case wire.KindToolResult:
			edits = append(edits, wire.Edit{Block: i, Op: wire.OpReplace, Value: []byte(`"stub"`)})
			edited[i] = true
		case wire.KindToolUse:
			edits = append(edits, wire.Edit{Block: i, Op: wire.OpReplace, Value: []byte(`{"stub":1}`)})
			edited[i] = true
		}
	}
	out, err := v.Splice(edits)
	if err != nil || !json.Valid(out) {
		t.Fatalf("spliced: %v, or not JSON", err)
	}
	w, err := wire.Parse(wire.Gemini, out, nil)
	if err != nil || len(w.Blocks) != len(v.Blocks) {
		t.Fatalf("%d blocks have become %d: %v", len(v.Blocks), len(w.Blocks), err)
	}
	for i := range v.Blocks {
		if edited[i] == bytes.Equal(v.Bytes(v.Blocks[i].Span), w.Bytes(w.Blocks[i].Span)) {
			t.Fatalf("block %d, a %s: edited is %t", i, v.Blocks[i].Kind, edited[i])
		}
	}
	return signed
}
