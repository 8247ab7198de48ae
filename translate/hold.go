// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package translate

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/sse"
)

// Hold passes a stream on in its own format, event by event and member by
// member as it came, but for tool calls: each is held until it is complete and
// sent whole. It is what buffer_tool_calls does where nothing is translated, so
// that nothing a client's own format can say is lost. A Hold belongs to one
// goroutine.
type Hold struct {
	events sse.Parser
	emit   func(sse.Event)
	held   holder
	out    output
	begun  bool
	ended  bool
	raw    bool // passes on unread
}

// holder holds the calls of one format. It is given each event and sends on
// what the client is to get now, in the event's place.
type holder interface {
	event(o *output, name string, data []byte, root gjson.Result) (end bool)
	// flush sends what is complete; the stream is about to end.
	flush(o *output)
}

// NewHold returns a Hold for a stream in format f. Gemini sends calls whole
// anyway; its streams pass as they are. With joined, the calls of a stream of chat
// completions go together, in the chunk with the finish_reason.
func NewHold(f wire.Format, joined bool) *Hold {
	h := &Hold{}
	switch f {
	case wire.Anthropic:
		h.held = new(anthropicHolder)
	case wire.OpenAIChat:
		h.held = &chatHolder{joined: joined}
	case wire.OpenAIResponses:
		h.held = new(responsesHolder)
	default:
		h.raw = true
	}
	h.emit = h.event
	h.events.Comment = func() { h.out.raw(": ping\n\n") }
	return h
}

// Feed takes the next bytes of the stream and returns what the client is to get
// now. The result is good until the next call.
func (h *Hold) Feed(p []byte) []byte {
	if !h.begun {
		p = bytes.TrimLeft(p, " \t\r\n")
		if len(p) == 0 {
			return nil
		}
		h.begun = true
		h.raw = h.raw || p[0] == '{' || p[0] == '[' // an answer in one piece after all
	}
	if h.raw {
		return p
	}
	h.out.buf = h.out.buf[:0]
	h.events.Feed(p, h.emit)
	return h.out.buf
}

// Close ends the stream. What is held was never complete, and is dropped: the
// stream is as cut as the upstream's.
func (h *Hold) Close(bool) []byte { return nil }

// Ended tells whether the stream has come to its end.
func (h *Hold) Ended() bool { return h.ended || h.raw }

// Failure is nil: errors pass as they are.
func (h *Hold) Failure() *Failure { return nil }

func (h *Hold) event(e sse.Event) {
	data := bytes.TrimSpace(e.Data)
	if string(data) == "[DONE]" {
		h.held.flush(&h.out)
		h.ended = true
		h.out.pass("", data)
		return
	}
	if !wire.ValidBytes(data) {
		h.out.pass(view(e.Name), e.Data)
		return
	}
	if h.held.event(&h.out, view(e.Name), data, gjson.Parse(view(data))) {
		h.ended = true
	}
}

// pass appends an event as it came.
func (o *output) pass(name string, data []byte) {
	if name != "" {
		o.raw("event: ")
		o.raw(name)
		o.raw("\n")
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		o.raw("data: ")
		o.buf = append(o.buf, line...)
		o.raw("\n")
	}
	o.raw("\n")
}

// replace returns an object with members replaced. An object that cannot be
// patched stays as it is.
func replace(object []byte, members ...wire.Member) []byte {
	out, err := wire.Patch(object, members...)
	if err != nil {
		return object
	}
	return out
}
