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

package framing

import (
	"slices"
	"strings"
	"testing"
)

// frames feeds the pieces, each in a buffer that is overwritten after Feed, and
// returns the frames as "raw|name|data".
func frames(pieces ...string) (out []string) {
	var f Framer
	emit := func(f Frame) { out = append(out, string(f.Raw)+"|"+string(f.Name)+"|"+string(f.Data)) }
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

// TestFramer: wherever a stream is cut, the frames are the same, and together
// they are the stream.
func TestFramer(t *testing.T) {
	for _, c := range []struct {
		stream string
		want   []string
	}{
		{"", nil},
		{"data: a\n\n", []string{"data: a\n\n||a"}},
		{"event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []string{"event: x\r\ndata: a\r\n\r|x|a", "\n||", "data: b\r\n\r||b", "\n||"}},
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

// A frame is there with the last byte that it needs, and no byte is looked at
// twice: a long event costs its length, not its square.
func TestFramerLooksOnce(t *testing.T) {
	var f Framer
	n := 0
	emit := func(Frame) { n++ }
	f.Feed([]byte("data: a\r\n\r"), emit)
	if n != 1 {
		t.Error("an event waits for a byte that may never come")
	}
	f.Feed([]byte("\ndata: "), emit)
	for range 100 {
		f.Feed([]byte("bbbb\nda"), emit)
		if f.seen != len(f.tail) {
			t.Fatalf("%d of %d bytes were looked at", f.seen, len(f.tail))
		}
		f.Feed([]byte("ta: "), emit)
	}
	f.Feed([]byte("\n\n"), emit)
	if n != 3 || len(f.Rest()) != 0 {
		t.Errorf("%d frames, %q is left", n, f.Rest())
	}
}

func FuzzFramer(f *testing.F) {
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
		var fr Framer
		emit := func(f Frame) { whole.Write(f.Raw) }
		fr.Feed([]byte(stream), emit)
		fr.End(emit)
		if whole.String() != stream {
			t.Errorf("%q came out of %q", whole.String(), stream)
		}
	})
}
