// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"bytes"
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Buffer collects the next output for the client.
type Buffer struct {
	// Buf is the output so far.
	Buf []byte
	// The event last read by a [Bufferer], its data, and whether it was forwarded unmodified.
	came   framing.Event
	read   []byte
	passed bool
}

// maxKept is the largest buffer kept for reuse after a long event.
const maxKept = 1 << 20

// reset clears the output.
func (o *Buffer) reset() {
	if cap(o.Buf) > maxKept {
		o.Buf = nil
	}
	o.Buf = o.Buf[:0]
}

// SSE begins an event with a name. The caller appends its data and calls End.
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

// Inside appends the inside of a JSON string, with quotes.
func (o *Buffer) Inside(s string) {
	o.Buf = append(o.Buf, '"')
	o.Buf = append(o.Buf, s...)
	o.Buf = append(o.Buf, '"')
}

// frame appends an event's original bytes.
func (o *Buffer) frame(f framing.Event) { o.Buf, o.passed = append(o.Buf, f.Raw...), true }

// Pass appends an event. The event last read is forwarded in its original bytes.
func (o *Buffer) Pass(name string, data []byte) {
	// Data in the same memory was not modified.
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
