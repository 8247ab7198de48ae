// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package letta

import (
	"maps"
	"strings"
	"time"
)

// speaker writes an answer as events of the Responses API: one message, piece by piece.
type speaker struct {
	id, model string
	at        time.Time
	usage     object // nil for none
	emit      func(object)

	sent int // number of events
	text strings.Builder
}

// answerID is the id of the answer's only item.
const answerID = "msg_again"

func (s *speaker) send(kind string, members object) {
	members["type"], members["sequence_number"] = kind, s.sent
	s.sent++
	s.emit(members)
}

func (s *speaker) state(status string, output ...object) object {
	if output == nil {
		output = []object{}
	}
	var usage any
	if s.usage != nil {
		usage = s.usage
	}
	return object{
		"id": s.id, "object": "response", "created_at": s.at.Unix(), "status": status, "model": s.model, "output": output,
		"error": nil, "incomplete_details": nil, "usage": usage,
	}
}

func (s *speaker) item(status string, content ...object) object {
	if content == nil {
		content = []object{}
	}
	return object{"type": "message", "id": answerID, "status": status, "role": "assistant", "content": content}
}

func (s *speaker) part() object {
	return object{"type": "output_text", "text": s.text.String(), "annotations": []any{}}
}

func within(members object) object {
	members["output_index"], members["content_index"], members["item_id"] = 0, 0, answerID
	return members
}

func (s *speaker) begin() {
	s.send("response.created", object{"response": s.state("in_progress")})
}

func (s *speaker) say(text string) {
	if text == "" {
		return
	}
	// An answer without text has no message item.
	if s.text.Len() == 0 {
		s.send("response.output_item.added", object{"output_index": 0, "item": s.item("in_progress")})
		s.send("response.content_part.added", within(object{"part": s.part()}))
	}
	s.text.WriteString(text)
	s.send("response.output_text.delta", within(object{"delta": text}))
}

func (s *speaker) end(status string, members object) {
	var output []object
	if s.text.Len() > 0 {
		ended := "completed"
		if status != ended {
			ended = "incomplete"
		}
		part := s.part()
		output = append(output, s.item(ended, part))
		s.send("response.output_text.done", within(object{"text": s.text.String()}))
		s.send("response.content_part.done", within(object{"part": part}))
		s.send("response.output_item.done", object{"output_index": 0, "item": output[0]})
	}
	state := s.state(status, output...)
	maps.Copy(state, members)
	s.send("response."+status, object{"response": state})
}
