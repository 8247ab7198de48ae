// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"bytes"
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Buffer is what goes to the client next.
type Buffer struct {
	// Buf is what has been written.
	Buf []byte
	// What a [Hold] has read last: the event, its data, and whether it has passed
	// as it came.
	came   framing.Event
	read   []byte
	passed bool
}

// largestKept bounds the memory that is kept behind a long event to be used again.
const largestKept = 1 << 20

// reset makes ready for what comes next.
func (o *Buffer) reset() {
	if cap(o.Buf) > largestKept {
		o.Buf = nil
	}
	o.Buf = o.Buf[:0]
}

// SSE appends an event with a name; what follows up to its end is its data.
func (o *Buffer) SSE(name string) {
	o.Buf = append(o.Buf, "event: "...)
	o.Buf = append(o.Buf, name...)
	o.Buf = append(o.Buf, "\ndata: "...)
}

// Data begins an event without a name.
func (o *Buffer) Data() { o.Buf = append(o.Buf, "data: "...) }

// End ends an event.
func (o *Buffer) End() { o.Buf = append(o.Buf, "\n\n"...) }

// Raw appends bytes as they are.
func (o *Buffer) Raw(s string) { o.Buf = append(o.Buf, s...) }

// Int appends a number.
func (o *Buffer) Int(n int64) { o.Buf = strconv.AppendInt(o.Buf, n, 10) }

// Str appends a text as a JSON string.
func (o *Buffer) Str(s string) {
	o.Buf = append(o.Buf, '"')
	o.Buf = rawjson.AppendEscaped(o.Buf, s)
	o.Buf = append(o.Buf, '"')
}

// Inside appends the inside of a JSON string in quotes.
func (o *Buffer) Inside(s string) {
	o.Buf = append(o.Buf, '"')
	o.Buf = append(o.Buf, s...)
	o.Buf = append(o.Buf, '"')
}

// frame appends an event in the bytes that it came in.
func (o *Buffer) frame(f framing.Event) { o.Buf, o.passed = append(o.Buf, f.Raw...), true }

// Pass appends an event: in the bytes that it came in, if it is the one that came.
func (o *Buffer) Pass(name string, data []byte) {
	if len(data) > 0 && len(data) == len(o.read) && &data[0] == &o.read[0] {
		o.frame(o.came)
		return
	}
	if name != "" {
		o.Raw("event: ")
		o.Raw(name)
		o.Raw("\n")
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		o.Raw("data: ")
		o.Buf = append(o.Buf, line...)
		o.Raw("\n")
	}
	o.Raw("\n")
}
