// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// remark is one answer of a model.
type remark struct {
	text            string
	id, name, input string // of the tool call after the text
}

// errRemark says that an answer is not in the form of tapes.
var errRemark = errors.New("not an answer with a text and a call")

// heard parses an answer in chat completions.
func heard(answer []byte) (*remark, error) {
	var a struct {
		Choices []struct {
			Message struct {
				Content   string
				ToolCalls []struct {
					ID       string
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return nil, fmt.Errorf("answer %.80q: %w", answer, err)
	}
	if len(a.Choices) != 1 || len(a.Choices[0].Message.ToolCalls) != 1 {
		return nil, fmt.Errorf("answer %.80q: %w", answer, errRemark)
	}
	m := &a.Choices[0].Message
	call := &m.ToolCalls[0]
	return &remark{m.Content, call.ID, call.Function.Name, call.Function.Arguments}, nil
}

// retell sends the answer of a chat completions tape in Messages. After translation the client gets
// the answer that it sends back later.
func (r *reel) retell(w http.ResponseWriter, turns, length int) {
	kept, ok := r.retold.Load(turns)
	if !ok {
		said, err := heard(r.Answer(turns, length, false))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		kept, _ = r.retold.LoadOrStore(turns, said)
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = w.Write(kept.(*remark).messages(length / 4))
}

// messages returns a stream of Messages after a prompt of this many tokens, of which the last 256
// are new, as with tapes. The texts of tapes are quoted the same in Go and JSON.
func (r *remark) messages(prompt int) []byte {
	cached := max(0, prompt-256)
	half := len(r.input) / 2
	return fmt.Appendf(nil, `event: message_start
data: {"type":"message_start","message":{"id":"msg_%[1]s","type":"message","role":"assistant","model":"claude-opus-4-6","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":8,"cache_creation_input_tokens":%[2]d,"cache_read_input_tokens":%[3]d,"output_tokens":120}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%[4]s}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"%[1]s","name":%[5]s,"input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":%[6]s}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":%[7]s}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":120}}

event: message_stop
data: {"type":"message_stop"}

`, r.id, prompt-cached, cached, strconv.Quote(r.text), strconv.Quote(r.name), strconv.Quote(r.input[:half]), strconv.Quote(r.input[half:]))
}
