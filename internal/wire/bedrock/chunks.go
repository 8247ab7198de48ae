// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package bedrock

import (
	"bytes"
	"encoding/base64"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
)

// Chunks is the framing of Bedrock's streams: each event is base64 in one chunk of an AWS event
// stream
// (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_PayloadPart.html).
type Chunks struct{ framing.EventStream }

// Framer implements [framing.Framing].
func (Chunks) Framer() framing.Framer {
	f := new(chunkFramer)
	f.read = f.chunk
	return f
}

// Append implements [framing.Framing].
func (c Chunks) Append(dst []byte, _ string, data []byte) []byte {
	// A chunk has no name for its event. The data has the event's type.
	payload := append(make([]byte, 0, base64.StdEncoding.EncodedLen(len(data))+16), `{"bytes":"`...)
	payload = base64.StdEncoding.AppendEncode(payload, data)
	return c.EventStream.Append(dst, "chunk", append(payload, `"}`...))
}

// chunkFramer finds the events in chunks. Events in chunks have no name; exceptions have one.
type chunkFramer struct {
	framing.EventStreamFramer
	data []byte
	read func(framing.Event)
	emit func(framing.Event)
}

// Feed implements [framing.Framer].
func (f *chunkFramer) Feed(b []byte, emit func(framing.Event)) {
	f.emit = emit
	f.EventStreamFramer.Feed(b, f.read)
}

// maxKept is the largest buffer, in bytes, that is reused after a long event.
const maxKept = 1 << 20

// chunk unpacks a chunk. An unreadable chunk becomes an event without data.
func (f *chunkFramer) chunk(e framing.Event) {
	if string(e.Name) != "chunk" {
		f.emit(e)
		return
	}
	if cap(f.data) > maxKept {
		f.data = nil
	}
	data, err := base64.StdEncoding.AppendDecode(f.data[:0], encoded(e.Data))
	e.Name, e.Data = nil, nil
	if err == nil && len(data) > 0 {
		f.data, e.Data = data, data
	}
	f.emit(e)
}

// encoded returns the base64 text in the payload's member bytes.
func encoded(payload []byte) []byte {
	const begins = `{"bytes":"`
	if rest, ok := bytes.CutPrefix(payload, []byte(begins)); ok {
		if text, _, ok := bytes.Cut(rest, []byte{'"'}); ok {
			return text
		}
	}
	return []byte(gjson.GetBytes(payload, "bytes").Str)
}
