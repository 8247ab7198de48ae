// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func TestExactAnswers(t *testing.T) {
	c := newClient(t, Box)
	wrote := wire.Turn{
		Text: " Let me look.", Thinking: "Hm <b>.",
		Calls: []wire.Call{{Name: "A", Arguments: `{"x": 1, "y": "<é>"}`}},
	}
	c.send(chat("S", toolA, hello), wrote)
	sent := func(arguments string) string {
		return `{"role":"assistant","content":"Let me look.","tool_calls":[{"id":"1","type":"function",` +
			`"function":{"name":"A","arguments":` + string(quote(arguments)) + `}}]}`
	}
	exact := `{"reasoning_content":"Hm <b>.","role":"assistant","content":" Let me look.","tool_calls":[{"id":"1",` +
		`"type":"function","function":{"name":"A","arguments":"{\"x\": 1, \"y\": \"<é>\"}"}}]}`
	body := chat("S", toolA, hello, sent(`{"y":"<é>","x":1}`), result)
	wants(t, c.send(body, wire.Turn{Text: "Done"}), exact)
	wants(t, c.send(chat("S", toolA, hello, sent(`{"y":"<é>","x":1}`), result, `{"role":"assistant","content":"Done"}`,
		hello), wire.Turn{}), exact)

	for name, other := range map[string]string{
		"other arguments":      sent(`{"x":2,"y":"<é>"}`),
		"another number":       sent(`{"x":1.0,"y":"<é>"}`),
		"another text":         strings.Replace(sent(`{"y":"<é>","x":1}`), "Let me look", "I have looked", 1),
		"a call that is gone":  `{"role":"assistant","content":"Let me look."}`,
		"a call of another":    strings.Replace(sent(`{"y":"<é>","x":1}`), `"name":"A"`, `"name":"B"`, 1),
		"arguments that break": sent(`{"x":1,"y`),
	} {
		c := newClient(t, Box)
		c.send(chat("S", toolA, hello), wrote)
		if body := chat("S", toolA, hello, other, result); c.send(body, wire.Turn{}) != body {
			t.Errorf("%s was taken for what the model wrote", name)
		}
	}
}

// TestThinkingThatWasStripped: thinking that the client sent back and a later stage removed stays
// removed.
func TestThinkingThatWasStripped(t *testing.T) {
	c := newClient(t, Box)
	c.send(chat("S", toolA, hello), wire.Turn{Text: "Hi", Thinking: "Hm."})
	said := `{"role":"assistant","content":"Hi","reasoning_content":"Hm."}`
	c.send(chat("S", toolA, hello, said, hello), wire.Turn{Text: "Yes"})
	if body := chat("S", toolA, hello, strings.Replace(said, `,"reasoning_content":"Hm."`, "", 1), hello); c.send(body,
		wire.Turn{}) != body {
		t.Error("thinking came back")
	}
}

// TestThinkingThatIsNothing: a null or empty member in place of the thinking is replaced.
func TestThinkingThatIsNothing(t *testing.T) {
	for _, nothing := range []string{`null`, `""`} {
		c := newClient(t, Box)
		c.send(chat("S", toolA, hello), wire.Turn{Text: "Hi", Thinking: "Hm."})
		said := `{"role":"assistant","reasoning_content":` + nothing + `,"content":"Hi"}`
		want := strings.Replace(said, nothing, `"Hm."`, 1)
		for _, body := range []string{
			chat("S", toolA, hello, said, hello),
			chat("S", toolA, hello, said, hello, `{"role":"assistant","content":"Yes"}`, hello),
		} {
			wants(t, c.send(body, wire.Turn{Text: "Yes"}), want)
		}
	}
}
