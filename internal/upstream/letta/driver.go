// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package letta

import (
	"crypto/sha256"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// driver continues a conversation stored by the App Server: requests carry the id of the last
// answer, and the server forks from it.
type driver struct {
	agents bool // each conversation has an agent
}

// Name implements [retain.Driver].
func (d driver) Name() string {
	if d.agents {
		return retain.LettaAgents
	}
	return retain.Letta
}

// Once implements [retain.Driver]. Each answer is a fork of its own, which stays.
func (driver) Once() bool { return false }

func (s *said) request(agents bool) (*retain.Request, error) {
	whole, err := s.with(s.whole(), s.system())
	if err != nil {
		return nil, err
	}
	r := &retain.Request{Body: whole, View: &wire.View{Format: s.format, Raw: whole}, History: s.history()}
	if last := s.turns[len(s.turns)-1:]; last[0].user {
		// An agent's system prompt can be replaced, so each request carries it. The App Server
		// stores the first message with the instructions in front, which binds the conversation
		// to them, so later requests go without.
		var system []byte
		if agents {
			system = s.system()
		}
		if r.Last, err = s.with(last, system); err != nil {
			return nil, err
		}
	}
	// An answer of another model, or under other instructions, cannot be continued.
	h := sha256.New()
	h.Write([]byte(s.model))
	h.Write([]byte{0})
	if !agents {
		h.Write(s.system())
	}
	copy(r.Bound[:], h.Sum(nil))
	return r, nil
}

func (s *said) with(turns []message, instructions []byte) ([]byte, error) {
	return wire.Patch(
		s.body, wire.Member{Name: lists[s.format], Value: s.list(turns)},
		wire.Member{Name: "instructions", Value: instructions},
		wire.Member{Name: "store", Value: []byte("true")}, wire.Member{Name: "tools"}, wire.Member{Name: "tool_choice"},
	)
}

// Delta implements [retain.Driver]. The server reads the last user message only, so all new content
// has to fit into one message.
func (driver) Delta(base *retain.Base, r *retain.Request) ([]byte, int) {
	if base == nil || r.Last == nil || len(r.History) != len(base.History)+1 {
		return nil, 0
	}
	delta, err := wire.Patch(r.Last, wire.Member{Name: "previous_response_id", Value: rawjson.Quote(base.Handle)})
	if err != nil {
		return nil, 0
	}
	return delta, 0
}

// Dress implements [retain.Driver].
func (driver) Dress(http.Header, retain.Key, *retain.Base, []byte) {}

// misses are the error codes upon which the whole conversation is sent.
var misses = map[string]bool{unknownResponse: true, "previous_response_not_found": true, "unsupported_backend": true}

// Read implements [retain.Driver].
func (driver) Read(delta bool, status int, _ http.Header, body []byte) (v retain.Verdict) {
	if code := gjson.GetBytes(body, "error.code").Str; delta && status >= 400 && misses[code] {
		v.Missed = retain.Cause(code)
	}
	return v
}

// Hear implements [retain.Driver].
func (driver) Hear(r *retain.Request, stream bool) retain.Ear {
	return &ear{of: r, decoder: wire.NewDecoder(wire.OpenAIResponses, stream), stream: stream}
}

type ear struct {
	of      *retain.Request
	decoder *wire.Decoder
	stream  bool
	body    []byte
}

const maxAnswer = 8 << 20

// Feed implements [retain.Ear].
func (e *ear) Feed(p []byte) (v retain.Verdict) {
	if e.decoder == nil {
		return v
	}
	if e.stream {
		e.decoder.Feed(p)
	} else {
		if e.body = append(e.body, p...); len(e.body) > maxAnswer {
			e.decoder, e.body = nil, nil
			return v
		}
		// A response in one piece is complete once its JSON is.
		if !rawjson.ValidBytes(e.body) {
			return v
		}
		e.decoder.Feed(e.body)
		e.decoder.End()
	}
	t := e.decoder.Turn()
	if !t.Done {
		return v
	}
	e.decoder = nil
	if t.ID == "" || t.Failed() {
		return v
	}
	return retained(e.of, t.ID, t.Text)
}

func retained(r *retain.Request, handle, text string) retain.Verdict {
	answer := message{parts: []part{{raw: string(rawjson.Quote(text))}}}
	return retain.Verdict{
		Handle: handle, History: append(r.History[:len(r.History):len(r.History)], answer.hash()),
		Outcome: &retain.Outcome{Handle: handle, Text: text, Mark: r.Mark},
	}
}
