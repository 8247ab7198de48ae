// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/conversation"
)

// The translated answer equals the tape's answer, and so the client's next request.
func TestRetold(t *testing.T) {
	tape := conversation.NewTape(conversation.Chat, conversation.Agent, 60<<10)
	for turn := range tape.Turns() {
		said, err := heard(tape.Answer(turn, 4000, false))
		if err != nil {
			t.Fatal(err)
		}
		var got remark
		lines := bufio.NewScanner(bytes.NewReader(said.messages(1000)))
		for lines.Scan() {
			data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
			if !ok {
				continue
			}
			var e struct {
				Block struct{ ID, Name string } `json:"content_block"`
				Delta struct {
					Text string
					JSON string `json:"partial_json"`
				}
			}
			if err := json.Unmarshal(data, &e); err != nil {
				t.Fatalf("turn %d: %v in %s", turn, err, data)
			}
			got.text, got.input = got.text+e.Delta.Text, got.input+e.Delta.JSON
			got.id, got.name = got.id+e.Block.ID, got.name+e.Block.Name
		}
		if got != *said || got.text == "" || got.input == "" {
			t.Errorf("turn %d: %+v, want %+v", turn, got, *said)
		}
	}
}

func TestHeardRefuses(t *testing.T) {
	for _, answer := range []string{``, `{}`, `{"choices":[]}`, `{"choices":[{"message":{"content":"Hello"}}]}`} {
		if said, err := heard([]byte(answer)); err == nil {
			t.Errorf("%s: %+v", answer, said)
		}
	}
}
