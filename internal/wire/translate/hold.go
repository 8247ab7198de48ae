// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"bytes"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Hold passes a stream on in its own format, event by event and member by
// member as it came, but for tool calls: each is held until it is complete and
// sent whole. It is what buffer_tool_calls does where nothing is translated, so
// that nothing a client's own format can say is lost. A Hold belongs to one
// goroutine.
type Hold struct {
	frames framing.SSEFramer
	emit   func(framing.Event)
	held   Holder
	out    Buffer
	begun  bool
	ended  bool
	raw    bool // passes on unread
}

// Holder holds the calls of one format. It is given each event and sends on
// what the client is to get now, in the event's place.
type Holder interface {
	// Event takes an event, and reports whether it is the last.
	Event(o *Buffer, name string, data []byte, root gjson.Result) (end bool)
	// Flush sends what is held, as far as it has come.
	Flush(o *Buffer)
	// Weight is about the memory that is held, in bytes.
	Weight() int
}

// HeldWeight is about what a call that is held takes beside its text, in bytes. It
// bounds how many there are: maxHeld / HeldWeight.
const HeldWeight = 8 << 10

// NewHold returns a Hold for a stream in format f. Where calls come whole
// anyway, streams pass as they are. With joined, the calls of a stream of chat
// completions go together, in the chunk with the finish_reason.
func NewHold(f wire.Format, joined bool) *Hold {
	h := &Hold{frames: framing.SSEFramer{Limit: maxHeld}}
	if h.held = dialectOf(f).Holder(joined); h.held == nil {
		h.raw = true
	}
	h.emit = h.event
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
	h.out.reset()
	h.frames.Feed(p, h.emit)
	if h.frames.Err() != nil { // an event too long to be read
		h.held.Flush(&h.out)
		h.out.Buf = append(h.out.Buf, h.frames.Rest()...)
		h.frames, h.raw = framing.SSEFramer{}, true
	}
	return h.out.Buf
}

// Close ends the stream and returns what the client is to get last. A call that was
// never complete reaches the client as far as it has come, unless the stream was cut.
func (h *Hold) Close(cut bool) []byte {
	h.out.reset()
	if cut || h.raw {
		return nil
	}
	h.frames.End(func(f framing.Event) {
		if data := bytes.TrimSpace(f.Data); !rawjson.ValidBytes(data) { // half an event, or [DONE]
			h.held.Flush(&h.out)
		}
		h.event(f)
		if at := len(h.out.Buf); h.held.Weight() > 0 { // the event lacks its blank line
			h.held.Flush(&h.out)
			h.out.Buf = slices.Insert(h.out.Buf, at, '\n', '\n')
		}
	})
	h.held.Flush(&h.out)
	return h.out.Buf
}

// Ended reports whether the stream has come to its end.
func (h *Hold) Ended() bool { return h.ended || h.raw }

// Failure is nil: errors pass as they are.
func (h *Hold) Failure() *Failure { return nil }

func (h *Hold) event(f framing.Event) {
	data := bytes.TrimSpace(f.Data)
	switch {
	case len(f.Raw) == 1 && f.Raw[0] == '\n': // the rest of a line end
		if h.out.passed {
			h.out.Buf = append(h.out.Buf, '\n')
		}
		return
	case string(data) == "[DONE]":
		h.held.Flush(&h.out)
		h.ended = true
		h.out.frame(f)
		return
	case !rawjson.ValidBytes(data):
		h.out.frame(f)
		return
	}
	h.out.came, h.out.read, h.out.passed = f, data, false
	if h.held.Event(&h.out, rawjson.View(f.Name), data, gjson.Parse(rawjson.View(data))) {
		h.ended = true
	}
	if h.held.Weight() > maxHeld {
		h.held.Flush(&h.out)
	}
}

// ReplaceMembers returns an object with members replaced. An object that cannot be
// patched stays as it is.
func ReplaceMembers(object []byte, members ...wire.Member) []byte {
	out, err := wire.Patch(object, members...)
	if err != nil {
		return object
	}
	return out
}
