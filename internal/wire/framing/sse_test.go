// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package framing

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// read feeds the pieces, each in a buffer that is overwritten after Feed, and returns the events
// with data as "name|data".
func read(p Framer, pieces ...string) []string {
	var events []string
	for _, piece := range pieces {
		b := []byte(piece)
		p.Feed(b, func(e Event) {
			if e.Data != nil {
				events = append(events, string(e.Name)+"|"+string(e.Data))
			}
		})
		for i := range b {
			b[i] = '#'
		}
	}
	return events
}

func TestSSE(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         []string
	}{
		{"nothing", "", nil},
		{"one", "event: a\ndata: b\n\n", []string{"a|b"}},
		{"crlf", "event: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []string{"a|b", "|c"}},
		{"cr", "event: a\rdata: b\r\rdata: c\r\r", []string{"a|b", "|c"}},
		{"mixed ends", "data: a\r\n\rdata: b\n\r\ndata: c\r\n\n", []string{"|a", "|b", "|c"}},
		{"byte order mark", "\xEF\xBB\xBFdata: a\n\n", []string{"|a"}},
		{"byte order mark later", "data: a\n\n\xEF\xBB\xBFdata: b\n\ndata: c\n\n", []string{"|a", "|c"}},
		{"comments", ": keepalive 2048/9000\n\n:\n\n:x\ndata: a\n: y\n\n", []string{"|a"}},
		{"several lines", "data: a\ndata: b\ndata:\ndata: c\n\n", []string{"|a\nb\n\nc"}},
		{
			"bare JSON", "data: a\n\n{\"error\":{\"code\":500}}\r\n\r\ndata: b\n\n",
			[]string{"|a", `|{"error":{"code":500}}`, "|b"},
		},
		{"empty data", "data:\n\ndata\n\ndata: \n\n", []string{"|", "|", "|"}},
		{"two empty lines", "data\ndata\n\n", []string{"|\n"}},
		{"name without data", "event: a\n\ndata: b\n\n", []string{"|b"}},
		{"name twice", "event: a\nevent: b\ndata: c\n\n", []string{"b|c"}},
		{"name after data", "data: c\nevent: b\n\n", []string{"b|c"}},
		{"one space only", "data:  a \n\n", []string{"| a "}},
		{"no space", "event:a\ndata:{\"b\":1}\n\n", []string{"a|{\"b\":1}"}},
		{"colons", "data: a: b\n\n", []string{"|a: b"}},
		{"other fields", "id: 1\nretry: 100\nfoo: bar\nDATA: x\n data: y\ndata: a\n\n", []string{"|a"}},
		{"unfinished", "data: a\n\ndata: b\n", []string{"|a"}},
		{"unfinished line", "data: a\n\ndata: [DONE]", []string{"|a"}},
		{"blank lines", "\n\n\r\n\rdata: a\n\n\n\n", []string{"|a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := read(&SSEFramer{}, c.stream); !slices.Equal(got, c.want) {
				t.Errorf("whole: got %q, want %q", got, c.want)
			}
			if got := read(&SSEFramer{}, strings.Split(c.stream, "")...); !slices.Equal(got, c.want) {
				t.Errorf("byte by byte: got %q, want %q", got, c.want)
			}
			for i := range len(c.stream) {
				if got := read(&SSEFramer{}, c.stream[:i], c.stream[i:]); !slices.Equal(got, c.want) {
					t.Errorf("cut at %d: got %q, want %q", i, got, c.want)
				}
			}
		})
	}
}

// TestSSEEnd: a partial last event is only emitted by End.
func TestSSEEnd(t *testing.T) {
	for stream, want := range map[string][]string{
		"":                                  nil,
		"data: a\n\n":                       {"|a"},
		"data: a\n\nevent: e\ndata: b":      {"|a", "e|b"},
		"data: a\n\ndata: b\n":              {"|a", "|b"},
		"data: a\r\rdata: b\r":              {"|a", "|b"},
		"data: a\n\n: comment":              {"|a"},
		"data: a\n\nevent: e\n":             {"|a"},
		"\xEF\xBB\xBFdata: a":               {"|a"},
		"data: a\n\n{\"error\":\"half\"}\n": {"|a", `|{"error":"half"}`},
	} {
		for i := range len(stream) + 1 {
			p := &SSEFramer{}
			got := read(p, stream[:i], stream[i:])
			p.End(func(e Event) {
				if e.Data != nil {
					got = append(got, string(e.Name)+"|"+string(e.Data))
				}
			})
			if !slices.Equal(got, want) {
				t.Errorf("%q cut at %d: got %q, want %q", stream, i, got, want)
			}
		}
	}
}

func TestSSELimit(t *testing.T) {
	const limit = 20
	for _, c := range []struct {
		name, stream string
		want         []string
		fails        bool
	}{
		{
			"at the limit", "data: " + strings.Repeat("a", limit-8) + "\n\n",
			[]string{"|" + strings.Repeat("a", limit-8)},
			false,
		},
		{"long line", "data: b\n\ndata: " + strings.Repeat("a", limit-7) + "\n\ndata: c\n\n", []string{"|b"}, true},
		{"long comment", ":" + strings.Repeat("a", limit) + "\n\ndata: c\n\n", nil, true},
		{"many lines", strings.Repeat("data: a\n", limit) + "\n", nil, true},
		{"long name", "event: 12\ndata: 12\n\ndata: c\n\n", []string{"12|12", "|c"}, false},
		{"longer name", "event: 12\ndata: 123\n\ndata: c\n\n", nil, true},
		{"many events", strings.Repeat("data: a\n\n", 3), []string{"|a", "|a", "|a"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, pieces := range [][]string{{c.stream}, strings.Split(c.stream, "")} {
				p := &SSEFramer{Limit: limit}
				if got := read(p, pieces...); !slices.Equal(got, c.want) {
					t.Errorf("in %d pieces: got %q, want %q", len(pieces), got, c.want)
				}
				if c.fails && string(p.Rest()) == "" {
					t.Error("what was not read is gone")
				}
				if got := errors.Is(p.Err(), ErrTooLarge); got != c.fails {
					t.Errorf("in %d pieces: error %v", len(pieces), p.Err())
				}
			}
		})
	}
	t.Run("default", func(t *testing.T) {
		p, piece := &SSEFramer{}, bytes.Repeat([]byte("a"), 1<<20)
		p.Feed([]byte("data: "), nil)
		for range DefaultLimit/len(piece) - 1 {
			p.Feed(piece, nil)
		}
		if p.Err() != nil {
			t.Fatal("in error below the limit")
		}
		p.Feed(piece, nil)
		if !errors.Is(p.Err(), ErrTooLarge) {
			t.Fatalf("error %v beyond the limit", p.Err())
		}
	})
}

// A whole event points into the input; a cut one into a reused buffer.
func TestSSEAllocations(t *testing.T) {
	for _, pieces := range []string{
		"event: a\ndata: {\"b\":1}\n\n",
		"event: a\nda|ta: {\"b\"|:1}\n\n",
		"event: a\ndata: 1\nda|ta: 2\n\n",
	} {
		var feed [][]byte
		for piece := range strings.SplitSeq(pieces, "|") {
			feed = append(feed, []byte(piece))
		}
		p, n := &SSEFramer{}, 0
		emit := func(Event) { n++ }
		one := func() {
			for _, b := range feed {
				p.Feed(b, emit)
			}
		}
		one()
		if allocs := testing.AllocsPerRun(100, one); allocs != 0 {
			t.Errorf("%q: %v allocations an event", pieces, allocs)
		}
		if n != 102 {
			t.Errorf("%q: %d events", pieces, n)
		}
	}
}

// frames feeds the pieces, each in a buffer that is overwritten after Feed, and returns the frames
// as "raw|name|data".
func frames(pieces ...string) (out []string) {
	var f SSEFramer
	emit := func(f Event) { out = append(out, string(f.Raw)+"|"+string(f.Name)+"|"+string(f.Data)) }
	for _, piece := range pieces {
		b := []byte(piece)
		f.Feed(b, emit)
		for i := range b {
			b[i] = '#'
		}
	}
	f.End(emit)
	return out
}

// TestSSERaw: the frames do not depend on the cuts, and together they are the stream.
func TestSSERaw(t *testing.T) {
	for _, c := range []struct {
		stream string
		want   []string
	}{
		{"", nil},
		{"data: a\n\n", []string{"data: a\n\n||a"}},
		{"event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []string{
			"event: x\r\ndata: a\r\n\r|x|a", "\n||", "data: b\r\n\r||b",
			"\n||",
		}},
		{"data: a\r\rdata: b\r\r", []string{"data: a\r\r||a", "data: b\r\r||b"}},
		{"data: a\rdata: b\r\n\n", []string{"data: a\rdata: b\r\n\n||a\nb"}},
		{"\n\ndata: a\n\n", []string{"\n||", "\n||", "data: a\n\n||a"}},
		{": c\n\n{\"error\":1}\n\n", []string{": c\n\n||", "{\"error\":1}\n\n||{\"error\":1}"}},
		{"\xEF\xBB\xBFdata: a\n\nid: 1\n", []string{"\xEF\xBB\xBFdata: a\n\n||a", "id: 1\n||"}},
		{"data: a\n\ndata: b", []string{"data: a\n\n||a", "data: b||b"}},
		{"data: a\n\nevent: e\ndata: b\n", []string{"data: a\n\n||a", "event: e\ndata: b\n|e|b"}},
		{"data: a\n\r", []string{"data: a\n\r||a"}},
	} {
		if got := frames(c.stream); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.stream, got, c.want)
		}
		if got := frames(strings.Split(c.stream, "")...); !slices.Equal(got, c.want) {
			t.Errorf("%q byte by byte: got %q, want %q", c.stream, got, c.want)
		}
		for i := range len(c.stream) {
			if got := frames(c.stream[:i], c.stream[i:]); !slices.Equal(got, c.want) {
				t.Errorf("%q cut at %d: got %q, want %q", c.stream, i, got, c.want)
			}
		}
	}
}

// An event is emitted with its last required byte, and no byte is searched twice: the cost of a
// long event is linear.
func TestSSELooksOnce(t *testing.T) {
	var f SSEFramer
	var got []string
	emit := func(e Event) { got = append(got, string(e.Data)) }
	f.Feed([]byte("data: a\r\n\r"), emit)
	if len(got) != 1 {
		t.Error("an event waits for a byte that may never come")
	}
	f.Feed([]byte("\ndata: "), emit)
	for range 100 {
		f.Feed([]byte("bbbb"), emit)
		for i := range f.Rest() { // a second search here would find line ends
			f.Rest()[i] = '\n'
		}
	}
	f.Feed([]byte("\n\n"), emit)
	if len(got) != 3 || len(f.Rest()) != 0 {
		t.Errorf("events %q, %q is left", got, f.Rest())
	}
}

func FuzzSSERaw(f *testing.F) {
	f.Add("event: a\r\ndata: b\r\n\r\n: c\n\ndata: d\rdata\r\r", 3)
	f.Add("data\n\nevent:\ndata: \n\r", 2)
	f.Fuzz(func(t *testing.T, stream string, n int) {
		want := frames(stream)
		var whole strings.Builder
		var pieces []string
		for piece := range slices.Chunk([]byte(stream), max(n, 1)) {
			pieces = append(pieces, string(piece))
		}
		if got := frames(pieces...); !slices.Equal(got, want) {
			t.Errorf("in pieces of %d: got %q, want %q", n, got, want)
		}
		var fr SSEFramer
		emit := func(f Event) { whole.Write(f.Raw) }
		fr.Feed([]byte(stream), emit)
		fr.End(emit)
		if whole.String() != stream {
			t.Errorf("%q came out of %q", whole.String(), stream)
		}
	})
}

// reference reads a whole stream line by line, like the standard, but with bare JSON as data.
func reference(stream string) []string {
	stream = strings.TrimPrefix(stream, "\xEF\xBB\xBF")
	stream = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream)
	lines := strings.Split(stream, "\n")
	var events []string
	name, data := "", ""
	for _, line := range lines[:len(lines)-1] { // the last line has no end
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != "" {
				events = append(events, name+"|"+strings.TrimSuffix(data, "\n"))
			}
			name, data = "", ""
		case line[0] == '{': // see [SSEFramer]
			data += line + "\n"
		case field == "event":
			name = value
		case field == "data":
			data += value + "\n"
		}
	}
	return events
}

func FuzzSSE(f *testing.F) {
	f.Add("event: a\r\ndata: b\r\n\r\n: c\n\ndata: d\rdata\r\r", 3)
	f.Add("\xEF\xBB\xBFdata:x\n\ndata: y", 1)
	f.Add("data\n\nevent:\ndata: \n\n", 2)
	f.Add("{\r\r", 106)
	f.Add("event: a\n{\"error\":1}\n\n", 9)
	f.Fuzz(func(t *testing.T, stream string, n int) {
		want := reference(stream)
		if got := read(&SSEFramer{}, stream); !slices.Equal(got, want) {
			t.Errorf("whole: got %q, want %q", got, want)
		}
		if got := read(&SSEFramer{}, strings.SplitAfter(stream, "")...); !slices.Equal(got, want) {
			t.Errorf("character by character: got %q, want %q", got, want)
		}
		var pieces []string
		for piece := range slices.Chunk([]byte(stream), max(n, 1)) {
			pieces = append(pieces, string(piece))
		}
		if got := read(&SSEFramer{}, pieces...); !slices.Equal(got, want) {
			t.Errorf("in pieces of %d: got %q, want %q", n, got, want)
		}
	})
}

func BenchmarkSSE(b *testing.B) {
	event := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0," +
		"\"delta\":{\"type\":\"text_delta\",\"text\":\" word\"}}\n\n"
	const events = 64
	stream := []byte(strings.Repeat(event, events))
	for _, size := range []int{len(stream), 1000, 16} {
		b.Run(fmt.Sprintf("pieces=%d", size), func(b *testing.B) {
			p, n := &SSEFramer{}, 0
			emit := func(Event) { n++ }
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				for piece := range slices.Chunk(stream, size) {
					p.Feed(piece, emit)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/event")
		})
	}
}
