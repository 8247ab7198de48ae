// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package letta

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
)

type object = map[string]any

// again reports whether a request is its client's retry.
func again(h http.Header, o *retain.Outcome) bool {
	n, _ := strconv.Atoi(h.Get("X-Stainless-Retry-Count"))
	return n > 0 || o.Mark != "" && o.Mark == mark(h)
}

const maxMark = 255

func mark(h http.Header) string {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if key := h.Get(name); key != "" && len(key) <= maxMark {
			return key
		}
	}
	return ""
}

// answer answers a request with a stored outcome and the given text.
func (s *said) answer(w http.ResponseWriter, o *retain.Outcome, text string, now time.Time) error {
	events := s.completion(o.Handle, text, now)
	if s.items() {
		events = s.response(o.Handle, text, now)
	}
	kind := "application/json"
	var body []byte
	if s.stream {
		kind = "text/event-stream"
		for _, e := range events {
			name, _ := e["type"].(string)
			body = framing.SSE{}.Append(body, name, mustJSON(e))
		}
		if !s.items() {
			// Streams of chat completions end with this marker.
			body = framing.SSE{}.Append(body, "", []byte("[DONE]"))
		}
	} else {
		last := events[len(events)-1]
		if r, ok := last["response"]; ok {
			last = r.(object)
		}
		body = mustJSON(last)
	}
	return httpx.Respond(w, http.StatusOK, kind, body)
}

func mustJSON(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}

// response returns an answer's events in the Responses API.
func (s *said) response(id, text string, now time.Time) (events []object) {
	a := speaker{id: id, model: s.model, at: now, emit: func(e object) { events = append(events, e) }}
	a.begin()
	a.say(text)
	a.end("completed", nil)
	return events
}

// completion returns an answer of chat completions: one object, or chunks.
func (s *said) completion(id, text string, now time.Time) (events []object) {
	emit := func(kind string, choice object) {
		choice["index"] = 0
		events = append(events, object{
			"id": id, "object": kind, "created": now.Unix(), "model": s.model,
			"choices": []object{choice},
		})
	}
	if !s.stream {
		emit("chat.completion", object{"message": object{"role": "assistant", "content": text}, "finish_reason": "stop"})
		return events
	}
	const chunk = "chat.completion.chunk"
	// The first chunk has the role only, as OpenAI sends it.
	emit(chunk, object{"delta": object{"role": "assistant", "content": ""}, "finish_reason": nil})
	if text != "" {
		emit(chunk, object{"delta": object{"content": text}, "finish_reason": nil})
	}
	emit(chunk, object{"delta": object{}, "finish_reason": "stop"})
	return events
}
