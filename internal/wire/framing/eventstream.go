// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package framing

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"slices"
)

// EventStream is the framing of AWS event streams: application/vnd.amazon.eventstream. Each message
// has a prelude of two lengths and their checksum, headers, a payload and a checksum of all of it
// (https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html,
// https://smithy.io/2.0/aws/amazon-eventstream.html).
type EventStream struct{}

const (
	preludeLen  = 12 // two lengths and their checksum
	checksumLen = 4
)

// Begins implements [Framing]. The first byte of a length is zero, because no message has 16 MiB.
func (EventStream) Begins(first byte) bool { return first == 0 }

// Framer implements [Framing].
func (EventStream) Framer() Framer { return &EventStreamFramer{} }

// Append implements [Framing].
func (EventStream) Append(dst []byte, name string, data []byte) []byte {
	return appendMessage(dst, data, ":event-type", name, ":content-type", "application/json", ":message-type", "event")
}

// AppendException appends an exception message, the last message of a failed stream.
func (EventStream) AppendException(dst []byte, name string, data []byte) []byte {
	return appendMessage(dst, data, ":exception-type", name, ":content-type", "application/json", ":message-type",
		"exception")
}

// appendMessage appends a message with text headers, given as names and values.
func appendMessage(dst, payload []byte, headers ...string) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, preludeLen)...)
	for pair := range slices.Chunk(headers, 2) {
		name, value := pair[0], pair[1]
		dst = append(append(append(dst, byte(len(name))), name...), headerString)
		dst = append(binary.BigEndian.AppendUint16(dst, uint16(len(value))), value...)
	}
	binary.BigEndian.PutUint32(dst[at+4:], uint32(len(dst)-at-preludeLen))
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at+len(payload)+checksumLen))
	binary.BigEndian.PutUint32(dst[at+8:], crc32.ChecksumIEEE(dst[at:at+8]))
	dst = append(dst, payload...)
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[at:]))
}

// EventStreamFramer splits a stream into messages. The name of an event is the event type,
// exception type or error code, the data is the payload. The zero value is ready to use.
type EventStreamFramer struct {
	// Limit is the maximum size of a message, in bytes. Default: 32 MiB.
	Limit int

	buffer
}

// Feed implements [Framer].
func (f *EventStreamFramer) Feed(b []byte, emit func(Event)) {
	limit := bound(f.Limit)
	for f.err == nil && len(b) > 0 {
		missing := preludeLen - len(f.tail)
		if missing > len(b) {
			f.keep(b, limit)
			return
		}
		// Complete the buffered prelude: it has the message's length.
		if missing > 0 && len(f.tail) > 0 {
			f.tail, b = append(f.tail, b[:missing]...), b[missing:]
		}
		prelude := f.tail
		if len(prelude) == 0 {
			prelude = b
		}
		total, headers := binary.BigEndian.Uint32(prelude), binary.BigEndian.Uint32(prelude[4:])
		switch {
		case crc32.ChecksumIEEE(prelude[:8]) != binary.BigEndian.Uint32(prelude[8:]):
			f.fail(ErrChecksum, b)
			return
		case total < preludeLen+checksumLen || headers > total-preludeLen-checksumLen:
			f.fail(ErrMalformed, b)
			return
		case uint64(total) > uint64(limit):
			f.fail(ErrTooLarge, b)
			return
		}
		missing = int(total) - len(f.tail)
		if missing > len(b) {
			f.keep(b, limit)
			return
		}
		var message []byte
		if message, b = f.whole(b[:missing]), b[missing:]; !f.emit(message, int(headers), emit) {
			f.tail = append([]byte(nil), message...)
			f.tail = append(f.tail, b...)
			return
		}
		f.forget()
	}
}

// emit decodes and emits a message. It returns false if the message is invalid.
func (f *EventStreamFramer) emit(m []byte, headers int, emit func(Event)) bool {
	end := len(m) - checksumLen
	if crc32.ChecksumIEEE(m[:end]) != binary.BigEndian.Uint32(m[end:]) {
		f.err = ErrChecksum
		return false
	}
	e := Event{Raw: m, Data: m[preludeLen+headers : end]}
	rest := m[preludeLen : preludeLen+headers]
	var message []byte
	for len(rest) > 0 {
		var name, value []byte
		var ok bool
		if name, value, rest, ok = header(rest); !ok {
			f.err = ErrMalformed
			return false
		}
		switch string(name) {
		case ":event-type", ":exception-type", ":error-code":
			e.Name = value
		case ":error-message":
			message = value
		}
	}
	if message != nil && len(e.Data) == 0 { // an error of the protocol itself
		e.Data, _ = json.Marshal(struct { // cannot fail for strings
			Message string `json:"message"`
		}{string(message)})
	}
	emit(e)
	return true
}

// The header types for bytes and strings.
const (
	headerBytes  = 6
	headerString = 7
)

// headerLen maps a header type to the length of its value, for types of fixed length.
var headerLen = [...]int{0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}

// header decodes a header. The value is nil unless it is a string or bytes.
func header(b []byte) (name, value, rest []byte, ok bool) {
	n := int(b[0])
	if len(b) < 1+n+1 {
		return nil, nil, nil, false
	}
	name, kind, b := b[1:1+n], int(b[1+n]), b[2+n:]
	switch {
	case kind == headerString || kind == headerBytes:
		if len(b) < 2 {
			return nil, nil, nil, false
		}
		n = int(binary.BigEndian.Uint16(b))
		if b = b[2:]; len(b) < n {
			return nil, nil, nil, false
		}
		return name, b[:n], b[n:], true
	case kind >= len(headerLen) || len(b) < headerLen[kind]:
		return nil, nil, nil, false
	}
	return name, nil, b[headerLen[kind]:], true
}

// End implements [Framer]. A partial message is an event without data.
func (f *EventStreamFramer) End(emit func(Event)) {
	if f.err != nil || len(f.tail) == 0 {
		return
	}
	event := f.tail
	f.tail = nil
	emit(Event{Raw: event})
}
