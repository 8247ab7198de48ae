// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package letta

import (
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// spoken translates an agent's REST answer to the Responses API, without its thinking and use of tools.
type spoken struct {
	httpx.Answer
	speaker speaker
	stream  *framing.SSEFramer // nil for an answer in one piece, and for an error
	body    []byte             // of an answer without a stream
	out     []byte
	last    object // the last event

	said  string // id of the last message
	stop  string // the agent's stop reason
	fault string // error text
	ended bool   // without an error
	over  bool
}

func newSpoken(w http.ResponseWriter, by speaker) *spoken {
	s := &spoken{speaker: by}
	s.Answer = httpx.NewAnswer(w, s)
	s.Apart()
	s.speaker.emit = func(e object) {
		if s.last = e; s.stream != nil {
			s.out = framing.SSE{}.Append(s.out, e["type"].(string), mustJSON(e))
		}
	}
	return s
}

// Begin implements [httpx.Receiver].
func (s *spoken) Begin(status int) {
	h := s.Header()
	if status/100 != 2 || !httpx.IsStream(httpx.MediaType(h.Get("Content-Type"))) {
		return
	}
	s.stream = new(framing.SSEFramer)
	delete(h, "Content-Length")
	h["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
	s.Send()
	s.speaker.begin()
}

// Buffering implements [httpx.Receiver].
func (s *spoken) Buffering() bool { return s.stream == nil }

// Take implements [httpx.Receiver].
func (s *spoken) Take(p []byte) (int, error) {
	if s.stream == nil {
		if len(s.body)+len(p) > maxAnswer {
			return 0, errLongReply
		}
		s.body = append(s.body, p...)
		return len(p), nil
	}
	s.stream.Feed(p, s.event)
	return len(p), s.flush()
}

func (s *spoken) flush() error {
	if len(s.out) == 0 {
		return nil
	}
	out := s.out
	s.out = nil
	_, err := s.ResponseWriter.Write(out)
	return err
}

func (s *spoken) event(e framing.Event) {
	switch {
	case s.over || len(e.Data) == 0:
	case string(e.Data) == "[DONE]":
		s.close()
	default:
		s.hear(gjson.ParseBytes(e.Data))
	}
}

func (s *spoken) hear(m gjson.Result) {
	switch m.Get("message_type").Str {
	case "assistant_message":
		text := m.Get("content").Str
		m.Get("content.#.text").ForEach(func(_, t gjson.Result) bool {
			text += t.Str
			return true
		})
		if text == "" {
			return
		}
		id := m.Get("id").Str
		// Separate messages become one text.
		if s.speaker.text.Len() > 0 && id != s.said {
			text = "\n\n" + text
		}
		s.said = id
		s.speaker.say(text)
	case "stop_reason":
		s.stop = m.Get("stop_reason").Str
	case "usage_statistics":
		s.spend(m)
	case "error_message":
		s.fault = strings.TrimSpace(m.Get("message").Str + " " + m.Get("detail").Str)
	// A comment keeps the client's connection alive as well.
	case "ping":
		s.out = append(s.out, ": ping\n"...)
	default:
		if e := m.Get("error"); e.Exists() {
			s.fault = e.Get("message").Str + e.Get("detail").Str
		}
	}
}

func (s *spoken) spend(u gjson.Result) {
	s.speaker.usage = object{
		"input_tokens": u.Get("prompt_tokens").Int(), "output_tokens": u.Get("completion_tokens").Int(),
		"total_tokens":          u.Get("total_tokens").Int(),
		"input_tokens_details":  object{"cached_tokens": u.Get("cached_input_tokens").Int()},
		"output_tokens_details": object{"reasoning_tokens": u.Get("reasoning_tokens").Int()},
	}
}

func (s *spoken) close() {
	s.over = true
	if s.fault == "" {
		s.fault = faults(s.stop)
	}
	switch {
	case s.fault != "":
		s.speaker.end("failed", object{"error": object{"code": "server_error", "message": s.fault}})
		return
	case s.stop == "max_tokens_exceeded":
		s.speaker.end("incomplete", object{"incomplete_details": object{"reason": "max_output_tokens"}})
	default:
		s.speaker.end("completed", nil)
	}
	s.ended = true
}

func faults(stop string) string {
	switch stop {
	case "end_turn", "tool_rule", "no_tool_call", "max_steps", "max_tokens_exceeded":
		return ""
	case "requires_approval":
		return "the agent waits for the approval of a call of a tool, which cannot be given here"
	case "":
		return "the agent has not said why it stopped"
	}
	return "the agent has stopped: " + stop
}

// finish ends an answer that was not cut.
func (s *spoken) finish() error {
	if s.stream != nil {
		s.stream.End(s.event)
		// If the agent's stream lacks its end, so does the client's.
		if !s.over && s.stop != "" {
			s.close()
		}
		return s.flush()
	}
	if s.Status == 0 {
		return &refusal{translate.Failure{Status: http.StatusBadGateway, Message: httpx.Unreached[http.StatusBadGateway]}}
	}
	if !rawjson.ValidBytes(s.body) || httpx.Coding(s.Header()) != "" {
		return &refusal{translate.Failure{
			Status:  http.StatusBadGateway,
			Message: "the server's answer is not one that can be read",
		}}
	}
	s.speaker.begin()
	all := gjson.ParseBytes(s.body)
	all.Get("messages").ForEach(func(_, m gjson.Result) bool {
		s.hear(m)
		return true
	})
	s.stop = all.Get("stop_reason.stop_reason").Str
	if u := all.Get("usage"); u.IsObject() {
		s.spend(u)
	}
	if s.close(); !s.ended {
		return &refusal{translate.Failure{Status: http.StatusBadGateway, Message: s.fault}}
	}
	s.Join()
	return httpx.Respond(s.ResponseWriter, s.Status, "application/json", mustJSON(s.last["response"]))
}

func (s *spoken) refusal() *refusal {
	if s.Status == 0 || s.Status/100 == 2 {
		return nil
	}
	return failed(s.Header(), s.Status, s.body)
}
