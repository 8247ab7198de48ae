// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package conversation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func body(t *Tape, name string, turns int) []byte {
	pieces, _ := t.Body(name, turns, true)
	return bytes.Join(pieces, nil)
}

// content returns the content of a response without a stream.
func content(t *testing.T, answer []byte) string {
	t.Helper()
	var whole struct {
		Content json.RawMessage `json:"content"`
		Choices []struct {
			Message json.RawMessage `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(answer, &whole); err != nil {
		t.Fatalf("answer: %v in %s", err, answer)
	}
	if len(whole.Choices) > 0 {
		return string(whole.Choices[0].Message)
	}
	return string(whole.Content)
}

// Every body is valid JSON of the returned length. Each extends the previous one but for the
// marker, and contains the model's answer.
func TestConversationsGrow(t *testing.T) {
	for _, shape := range []Shape{Claude, Chat} {
		for size, s := range map[int]Size{4 << 10: Small, 100 << 10: Agent} {
			t.Run(fmt.Sprint(shape, size), func(t *testing.T) {
				tape := NewTape(shape, s, size)
				var (
					before []json.RawMessage
					said   string
				)
				for i := range tape.Turns() + 1 {
					pieces, length := tape.Body("one", i, true)
					b := bytes.Join(pieces, nil)
					if len(b) != length {
						t.Fatalf("turn %d: %d bytes, told %d", i, len(b), length)
					}
					var req struct {
						Messages []json.RawMessage `json:"messages"`
						Stream   bool              `json:"stream"`
					}
					if err := json.Unmarshal(b, &req); err != nil || !req.Stream {
						t.Fatalf("turn %d: %v, stream %v", i, err, req.Stream)
					}
					if len(req.Messages) != len(before)+2 && i > 0 {
						t.Fatalf("turn %d: %d messages after %d", i, len(req.Messages), len(before))
					}
					for j, m := range before {
						was := strings.Replace(string(m), `,"cache_control":{"type":"ephemeral"}`, "", 1)
						if string(req.Messages[j]) != was {
							t.Fatalf("turn %d: message %d became %s, was %s", i, j, req.Messages[j], was)
						}
					}
					if i > 0 && !strings.Contains(string(req.Messages[len(before)]), said) {
						t.Fatalf("turn %d: sends back %s for %s", i, req.Messages[len(before)], said)
					}
					before, said = req.Messages, content(t, tape.Answer(i, length, false))
				}
				if got := len(body(tape, "one", tape.TurnsOf(size))); got < size*3/4 || got > size*5/4 {
					t.Errorf("asked for %d bytes, got %d", size, got)
				}
			})
		}
	}
}

func TestTapesRepeat(t *testing.T) {
	a, b := NewTape(Claude, Agent, 100<<10), NewTape(Claude, Agent, 100<<10)
	if !bytes.Equal(body(a, "x", 9), body(b, "x", 9)) {
		t.Error("two tapes of one kind differ")
	}
}
