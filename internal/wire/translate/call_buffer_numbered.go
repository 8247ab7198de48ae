// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// NumberedBuffer buffers the calls of a format with numbered entries. A call is buffered from its
// first event to the next event of the entry that does not add arguments.
type NumberedBuffer struct {
	// Index is an event's member with the entry number, Arguments the path of the arguments that it
	// adds. Sequence is the member with the event number, empty for none. Events are renumbered,
	// because buffering changes their order.
	Index, Arguments, Sequence string

	read     wire.AnswerReader
	begins   bool // the event begins a call
	ended    bool
	open     []bufferedEntry
	numbered bool
	next     int64
}

type bufferedEntry struct {
	index int64
	begun bufferedEvent
	first bufferedEvent // the first event with arguments
	args  []byte
}

type bufferedEvent struct {
	name string
	data []byte
}

// NewNumberedBuffer returns a NumberedBuffer with the codec's reader.
func NewNumberedBuffer(c wire.Codec, h NumberedBuffer) *NumberedBuffer {
	h.read = c.Reader(&h)
	return &h
}

// Take implements [wire.Sink].
func (h *NumberedBuffer) Take(e *wire.Event) {
	switch e.Kind {
	case wire.EventCall:
		h.begins = !e.APIDefined
	case wire.EventCallEnd:
		h.begins = false
	case wire.EventEnd:
		h.ended = true
	}
}

// Event implements [CallBuffer].
func (h *NumberedBuffer) Event(o *Buffer, name string, data []byte, root gjson.Result) bool {
	h.begins = false
	h.read.Event(root, name)
	index, arguments := root.Get(h.Index), root.Get(h.Arguments)
	at := -1
	if index.Exists() {
		at = slices.IndexFunc(h.open, func(e bufferedEntry) bool { return e.index == index.Int() })
	}
	event := bufferedEvent{name, data}
	switch {
	case h.begins && index.Exists():
		// The first event sets the start of the renumbering, even if it is buffered.
		h.number(root)
		h.open = append(h.open, bufferedEntry{index: index.Int(), begun: event.clone()})
		return false
	case at >= 0 && arguments.Exists():
		e := &h.open[at]
		if e.first.data == nil {
			e.first = event.clone()
		}
		e.args = append(e.args, rawjson.Inner(arguments)...)
		return false
	case at >= 0:
		// Another event of the entry ends the call's arguments.
		h.send(o, at)
	case h.ended:
		h.Flush(o)
	}
	h.write(o, event, root)
	return h.ended
}

func (e bufferedEvent) clone() bufferedEvent {
	return bufferedEvent{strings.Clone(e.name), bytes.Clone(e.data)}
}

// send writes a call, complete or not.
func (h *NumberedBuffer) send(o *Buffer, at int) {
	e := h.open[at]
	h.open = slices.Delete(h.open, at, at+1)
	h.write(o, e.begun, gjson.ParseBytes(e.begun.data))
	if e.first.data == nil {
		return
	}
	e.first.data = replaceAt(e.first.data, h.Arguments, rawjson.Quoted(e.args))
	h.write(o, e.first, gjson.ParseBytes(e.first.data))
}

// replaceAt replaces a member of an object or of a nested object.
func replaceAt(object []byte, path string, value []byte) []byte {
	name, rest, inner := strings.Cut(path, ".")
	if inner {
		value = replaceAt([]byte(gjson.GetBytes(object, name).Raw), rest, value)
	}
	return ReplaceMembers(object, wire.Member{Name: name, Value: value})
}

// number returns an event's number. The first event sets the start of the renumbering.
func (h *NumberedBuffer) number(root gjson.Result) (n gjson.Result) {
	if h.Sequence == "" {
		return n
	}
	if n = root.Get(h.Sequence); !h.numbered && n.Exists() {
		h.numbered, h.next = true, n.Int()
	}
	return n
}

func (h *NumberedBuffer) write(o *Buffer, e bufferedEvent, root gjson.Result) {
	if n := h.number(root); n.Exists() {
		if n.Int() != h.next {
			e.data = ReplaceMembers(e.data, wire.Member{Name: h.Sequence, Value: strconv.AppendInt(nil, h.next, 10)})
		}
		h.next++
	}
	o.Pass(e.name, e.data)
}

// Flush implements [CallBuffer].
func (h *NumberedBuffer) Flush(o *Buffer) {
	for len(h.open) > 0 {
		h.send(o, 0)
	}
}

// Weight implements [CallBuffer].
func (h *NumberedBuffer) Weight() (n int) {
	for i := range h.open {
		n += CallWeight + len(h.open[i].begun.data) + len(h.open[i].first.data) + len(h.open[i].args)
	}
	return n
}
