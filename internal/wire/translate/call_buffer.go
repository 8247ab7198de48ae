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

// Bufferer buffers the tool calls of a stream until they are complete. All other events and members are
// forwarded unmodified. It implements buffer_tool_calls for untranslated streams without any loss.
// A Bufferer is not safe for concurrent use.
type Bufferer struct {
	frames framing.SSEFramer
	emit   func(framing.Event)
	calls  CallBuffer
	out    Buffer
	begun  bool
	ended  bool
	raw    bool // forwarding unmodified
}

// CallBuffer buffers the calls of one format. For each event it writes the output for the client.
type CallBuffer interface {
	// Event handles an event, and reports whether it is the last.
	Event(o *Buffer, name string, data []byte, root gjson.Result) (end bool)
	// Flush writes the buffered calls, complete or not.
	Flush(o *Buffer)
	// Weight returns the approximate size of the buffer, in bytes.
	Weight() int
}

// CallWeight is the approximate overhead of a buffered call, in bytes. It limits the number of
// calls to maxBuffered / CallWeight.
const CallWeight = 8 << 10

// NewBufferer returns a Bufferer for a stream in format f. Formats with complete calls are forwarded
// unmodified. With joined, the calls of a chat completions stream are sent together, in the chunk
// with the finish_reason.
func NewBufferer(f wire.Format, joined bool) *Bufferer {
	h := &Bufferer{frames: framing.SSEFramer{Limit: maxBuffered}}
	if h.calls = dialectOf(f).CallBuffer(joined); h.calls == nil {
		h.raw = true
	}
	h.emit = h.event
	return h
}

// WholeCalls returns an answer in format f, in one piece, with its calls as a Bufferer sends them.
func WholeCalls(f wire.Format, body []byte) []byte {
	if c, ok := dialectOf(f).CallBuffer(false).(interface{ Whole(body []byte) []byte }); ok && rawjson.ValidBytes(body) {
		return c.Whole(body)
	}
	return body
}

// Feed takes the next bytes of the stream and returns the output for the client. The result is
// valid until the next call.
func (h *Bufferer) Feed(p []byte) []byte {
	if !h.begun {
		p = bytes.TrimLeft(p, " \t\r\n")
		if len(p) == 0 {
			return nil
		}
		h.begun = true
		h.raw = h.raw || p[0] == '{' || p[0] == '[' // a JSON answer, not a stream
	}
	if h.raw {
		return p
	}
	h.out.reset()
	h.frames.Feed(p, h.emit)
	if h.frames.Err() != nil { // the event exceeds the limit
		h.calls.Flush(&h.out)
		h.out.Buf = append(h.out.Buf, h.frames.Rest()...)
		h.frames, h.raw = framing.SSEFramer{}, true
	}
	return h.out.Buf
}

// Close ends the stream and returns the remaining output. An incomplete call is sent as is, unless
// the stream was cut off.
func (h *Bufferer) Close(cut bool) []byte {
	h.out.reset()
	if cut || h.raw {
		return nil
	}
	h.frames.End(func(f framing.Event) {
		if data := bytes.TrimSpace(f.Data); !rawjson.ValidBytes(data) { // a partial event, or [DONE]
			h.calls.Flush(&h.out)
		}
		h.event(f)
		if at := len(h.out.Buf); h.calls.Weight() > 0 { // the last event has no blank line
			h.calls.Flush(&h.out)
			h.out.Buf = slices.Insert(h.out.Buf, at, '\n', '\n')
		}
	})
	h.calls.Flush(&h.out)
	return h.out.Buf
}

// Ended reports whether the terminal event was read.
func (h *Bufferer) Ended() bool { return h.ended || h.raw }

// Failure returns nil, because errors are forwarded unmodified.
func (h *Bufferer) Failure() *Failure { return nil }

func (h *Bufferer) event(f framing.Event) {
	data := bytes.TrimSpace(f.Data)
	switch {
	case len(f.Raw) == 1 && f.Raw[0] == '\n': // the rest of a line end
		if h.out.passed {
			h.out.Buf = append(h.out.Buf, '\n')
		}
		return
	case string(data) == "[DONE]":
		h.calls.Flush(&h.out)
		h.ended = true
		h.out.frame(f)
		return
	case !rawjson.ValidBytes(data):
		h.out.frame(f)
		return
	}
	h.out.came, h.out.read, h.out.passed = f, data, false
	if h.calls.Event(&h.out, rawjson.View(f.Name), data, gjson.Parse(rawjson.View(data))) {
		h.ended = true
	}
	// Beyond the limit calls are sent incomplete.
	if h.calls.Weight() > maxBuffered {
		h.calls.Flush(&h.out)
	}
}

// ReplaceMembers returns an object with members replaced. An object that cannot be patched is
// returned unchanged.
func ReplaceMembers(object []byte, members ...wire.Member) []byte {
	out, err := wire.Patch(object, members...)
	if err != nil {
		return object
	}
	return out
}
