// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package framing

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

var framings = []struct {
	name    string
	framing Framing
	streams []string
	want    []string // events of the first stream as "name|data"
}{
	{
		"sse",
		SSE{},
		[]string{"event: a\r\ndata: b\r\n\r\n: c\n\ndata: d\n\n", "data: 1\ndata: 2\n\n{\"error\":1}\n\n"},
		[]string{"a|b", "|d"},
	},
	{
		"array",
		Array{},
		[]string{" [{\"a\":\"]}\\\"\"}\n,\r\n{\"b\":[{}]}]", "[]", "[{\"a\":1}"},
		[]string{`|{"a":"]}\""}`, `|{"b":[{}]}`},
	},
	{
		"eventstream",
		EventStream{},
		[]string{string(EventStream{}.AppendException(EventStream{}.Append(nil, "chunk", []byte(`{"bytes":"e30="}`)),
			"throttlingException", []byte(`{"message":"slow"}`)))},
		[]string{`chunk|{"bytes":"e30="}`, `throttlingException|{"message":"slow"}`},
	},
}

// split feeds a stream in pieces, each in a buffer that is overwritten afterwards. It returns the
// events' contents, all their bytes, and the final error.
func split(f Framer, stream string, size int) (said []string, raw string, err error) {
	emit := func(e Event) {
		raw += string(e.Raw)
		if e.Data != nil {
			said = append(said, string(e.Name)+"|"+string(e.Data))
		}
	}
	for piece := range slices.Chunk([]byte(stream), max(size, 1)) {
		b := bytes.Clone(piece)
		f.Feed(b, emit)
		for i := range b {
			b[i] = '#'
		}
		if f.Err() != nil {
			break
		}
	}
	if err = f.Err(); err == nil {
		f.End(emit)
	}
	return said, raw, err
}

// TestFramings: the events do not depend on the cuts, and together they are the stream. Appended
// events read back unchanged.
func TestFramings(t *testing.T) {
	for _, c := range framings {
		t.Run(c.name, func(t *testing.T) {
			for _, stream := range c.streams {
				want, raw, err := split(c.framing.Framer(), stream, len(stream))
				if raw != stream || err != nil {
					t.Errorf("%q came of %q: %v", raw, stream, err)
				}
				for size := 1; size < len(stream); size++ {
					got, raw, err := split(c.framing.Framer(), stream, size)
					if !slices.Equal(got, want) || raw != stream || err != nil {
						t.Errorf("%q in pieces of %d: %q, want %q; %q: %v", stream, size, got, want, raw, err)
					}
				}
			}
			if got, _, _ := split(c.framing.Framer(), c.streams[0], 7); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			first := strings.TrimLeft(c.streams[0], " ")[0]
			for _, other := range framings {
				if fits := other.framing.Begins(first); fits != (other.name == c.name) {
					t.Errorf("a stream of %s begins as one of %s: %t", c.name, other.name, fits)
				}
			}
			stream := c.framing.Append(c.framing.Append([]byte(c.streams[0]), "n", []byte(`{"x":1}`)), "", []byte(`{"y":2}`))
			if c.name == "array" { // the array has a closing bracket
				stream = append(c.framing.Append([]byte(`[{"z":0}`), "n", []byte(`{"x":1}`)), ']')
			}
			got, _, err := split(c.framing.Framer(), string(stream), len(stream))
			if err != nil || !slices.ContainsFunc(got, func(s string) bool { return strings.HasSuffix(s, `|{"x":1}`) }) {
				t.Errorf("of %q: %q, %v", stream, got, err)
			}
		})
	}
}

// TestFramingErrors: invalid and too long events are reported, and no byte is lost.
func TestFramingErrors(t *testing.T) {
	message := string(EventStream{}.Append(nil, "chunk", []byte(`{"bytes":"e30="}`)))
	corrupt := func(at int) string {
		b := []byte(message)
		b[at] ^= 1
		return string(b)
	}
	header := func(b string) string {
		m := appendMessage(nil, nil)
		m = append(m[:preludeLen], b...)
		binary.BigEndian.PutUint32(m, uint32(len(m)+checksumLen))
		binary.BigEndian.PutUint32(m[4:], uint32(len(b)))
		binary.BigEndian.PutUint32(m[8:], crc32.ChecksumIEEE(m[:8]))
		return string(binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m)))
	}
	prelude := func(total, headers uint32) string {
		m := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, total), headers)
		return string(binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m)))
	}
	const limit = 256
	for _, c := range []struct {
		name   string
		framer func() Framer
		good   string // preceding events
		bad    string
		want   error
	}{
		{"length", EventStream{}.Framer, message, corrupt(3), ErrChecksum},
		{"headers", EventStream{}.Framer, message, corrupt(preludeLen + 3), ErrChecksum},
		{"payload", EventStream{}.Framer, message, corrupt(len(message) - 8), ErrChecksum},
		{"checksum", EventStream{}.Framer, message, corrupt(len(message) - 1), ErrChecksum},
		{"short", EventStream{}.Framer, message, prelude(15, 0), ErrMalformed},
		{"more headers than message", EventStream{}.Framer, message, prelude(20, 5), ErrMalformed},
		{
			"long message", func() Framer { return &EventStreamFramer{Limit: limit} }, message, prelude(limit+1, 0),
			ErrTooLarge,
		},
		{"header without end", EventStream{}.Framer, message, header("\x05abc"), ErrMalformed},
		{"header without value", EventStream{}.Framer, message, header("\x01a\x07"), ErrMalformed},
		{"header with half a value", EventStream{}.Framer, message, header("\x01a\x07\x00\x05abc"), ErrMalformed},
		{"header with half a number", EventStream{}.Framer, message, header("\x01a\x04\x00"), ErrMalformed},
		{"header of no type", EventStream{}.Framer, message, header("\x01a\x0a"), ErrMalformed},
		{"array of numbers", Array{}.Framer, "[{}", ",1]", ErrMalformed},
		{"deep array", Array{}.Framer, "[{}", ",{\"a\":" + strings.Repeat("[", rawjson.MaxDepth), ErrMalformed},
		{
			"long element", func() Framer { return &ArrayFramer{Limit: limit} }, "[{}",
			",{\"a\":\"" + strings.Repeat("x", limit), ErrTooLarge,
		},
		{
			"long event", func() Framer { return &SSEFramer{Limit: limit} }, "data: a\n\n",
			"data: " + strings.Repeat("x", limit) + "\n\n", ErrTooLarge,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			stream := c.good + c.bad
			for _, size := range []int{len(stream), len(c.good), 1} {
				f := c.framer()
				said, raw, err := split(f, stream, size)
				if !errors.Is(err, c.want) || len(said) != 1 || raw != c.good {
					t.Errorf("pieces of %d: %q of %q, error %v", size, said, raw, err)
				}
				if rest := string(f.Rest()); rest == "" || !strings.HasPrefix(c.bad, rest) {
					t.Errorf("pieces of %d: %q is left", size, rest)
				}
				f.Feed([]byte(c.good), func(Event) { t.Error("it reads on") })
			}
		})
	}
}

// TestEventStream: messages match the protocol's description, with headers of all types. Errors of
// the protocol itself are events, too.
func TestEventStream(t *testing.T) {
	// From the protocol's description: a message without headers, and an empty one.
	for stream, want := range map[string]string{
		"\x00\x00\x00\x1d\x00\x00\x00\x00\xfd\x52\x8c\x5a{'foo':'bar'}\xc3\x65\x39\x36": "|{'foo':'bar'}",
		"\x00\x00\x00\x10\x00\x00\x00\x00\x05\xc2\x48\xeb\x7d\x98\xc8\xff":              "|",
	} {
		if got, _, err := split(EventStream{}.Framer(), stream, 5); err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("%q: %q, %v", stream, got, err)
		}
	}
	all := "\x01a\x00\x01b\x01\x01c\x02x\x01d\x03xx\x01e\x04xxxx\x01f\x05xxxxxxxx\x01g\x06\x00\x02xx\x01h\x08xxxxxxxx\x01i\x09xxxxxxxxxxxxxxxx"
	m := appendMessage(nil, []byte("{}"), ":event-type", "chunk")
	headers := append([]byte(all), m[preludeLen:len(m)-2-checksumLen]...)
	m = append(append(m[:preludeLen:preludeLen], headers...), "{}"...)
	binary.BigEndian.PutUint32(m, uint32(len(m)+checksumLen))
	binary.BigEndian.PutUint32(m[4:], uint32(len(headers)))
	binary.BigEndian.PutUint32(m[8:], crc32.ChecksumIEEE(m[:8]))
	m = binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m))
	if got, _, err := split(EventStream{}.Framer(), string(m), len(m)); err != nil ||
		!slices.Equal(got, []string{"chunk|{}"}) {
		t.Errorf("headers of all types: %q, %v", got, err)
	}
	m = appendMessage(nil, nil, ":message-type", "error", ":error-code", "InternalError", ":error-message", `a "word"`)
	if got, _, err := split(EventStream{}.Framer(), string(m), 9); err != nil ||
		!slices.Equal(got, []string{`InternalError|{"message":"a \"word\""}`}) {
		t.Errorf("an error of the protocol: %q, %v", got, err)
	}
}

// TestFramerAllocations: whole events point into the input, others into a reused buffer.
func TestFramerAllocations(t *testing.T) {
	for _, c := range framings {
		stream := c.streams[0]
		if c.name == "array" {
			continue // arrays have an end
		}
		for _, size := range []int{len(stream), 5} {
			var pieces [][]byte
			for piece := range slices.Chunk([]byte(stream), size) {
				pieces = append(pieces, piece)
			}
			f, n := c.framing.Framer(), 0
			emit := func(Event) { n++ }
			all := func() {
				for _, p := range pieces {
					f.Feed(p, emit)
				}
			}
			all()
			if allocs := testing.AllocsPerRun(100, all); allocs != 0 || n < 200 {
				t.Errorf("%s in pieces of %d: %v allocations for %d events", c.name, size, allocs, n)
			}
		}
	}
}

// FuzzFramings: no stream makes a framer panic, the cuts make no difference, and no byte is lost.
func FuzzFramings(f *testing.F) {
	for i, c := range framings {
		for _, s := range c.streams {
			f.Add(byte(i), []byte(s), 3)
		}
	}
	recorded, _ := filepath.Glob("../../testkit/answers/testdata/*.sse")
	for _, path := range recorded {
		if data, err := os.ReadFile(path); err == nil && len(data) < 64<<10 {
			f.Add(byte(0), data, 100)
			var frames []byte
			(&SSEFramer{}).Feed(data, func(e Event) { frames = EventStream{}.Append(frames, string(e.Name), e.Data) })
			f.Add(byte(3), frames, 100)
			f.Add(byte(1), bytes.ReplaceAll(data, []byte("data: "), nil), 100)
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, data []byte, size int) {
		c, stream := framings[int(kind)%len(framings)], string(data)
		want, whole, failed := split(c.framing.Framer(), stream, len(stream))
		fr := c.framing.Framer()
		got, raw, err := split(fr, stream, size)
		if !slices.Equal(got, want) || !errors.Is(err, failed) || (err == nil) != (failed == nil) || raw != whole {
			t.Errorf("%s: %q (%v) in pieces of %d, %q (%v) in one", c.name, got, err, size, want, failed)
		}
		if rest := raw + string(fr.Rest()); !strings.HasPrefix(stream, rest) || err == nil && rest != stream &&
			c.name != "array" {
			t.Errorf("%s: %q came of %q", c.name, rest, stream)
		}
	})
}
