// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// flusher is an encoder that writes piece by piece.
type flusher interface {
	io.WriteCloser
	Flush() error
}

func packers(t *testing.T, w io.Writer) map[string]flusher {
	t.Helper()
	z, err := zstd.NewWriter(w)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]flusher{"gzip": gzip.NewWriter(w), "zstd": z}
}

// Flushed bytes of a server come out at once, in pieces of any size.
func TestUnpacker(t *testing.T) {
	events := []string{"data: {\"a\":1}\n\n", strings.Repeat("data: long\n\n", 5000), "data: [DONE]\n\n"}
	for _, coding := range []string{"gzip", "zstd"} {
		for _, size := range []int{1, 7, 1 << 20} {
			var packed, got bytes.Buffer
			z := packers(t, &packed)[coding]
			u := newUnpacker(coding)
			feed := func() {
				t.Helper()
				for packed.Len() > 0 {
					if err := u.feed(packed.Next(size), func(p []byte) error { got.Write(p); return nil }); err != nil {
						t.Fatalf("%s, %d bytes at a time: %v", coding, size, err)
					}
				}
			}
			for i, e := range events {
				if _, err := io.WriteString(z, e); err != nil {
					t.Fatal(err)
				}
				if err := z.Flush(); err != nil {
					t.Fatal(err)
				}
				feed()
				if want := strings.Join(events[:i+1], ""); got.String() != want {
					t.Errorf("%s, %d bytes at a time: %d bytes after event %d, want %d", coding, size, got.Len(), i, len(want))
				}
			}
			if err := u.end(func([]byte) error { return nil }); err == nil {
				t.Errorf("%s: an answer without its end is whole", coding)
			}
			u.stop()
		}
	}
}

func TestUnpackerEnds(t *testing.T) {
	drop := func([]byte) error { return nil }
	for _, coding := range []string{"gzip", "zstd"} {
		var packed bytes.Buffer
		z := packers(t, &packed)[coding]
		_, _ = io.WriteString(z, strings.Repeat("whole ", 100))
		_ = z.Close()
		u := newUnpacker(coding)
		if err := u.feed(packed.Bytes(), drop); err != nil {
			t.Errorf("%s: %v", coding, err)
		}
		if err := u.end(drop); err != nil {
			t.Errorf("%s: the end: %v", coding, err)
		}
		u.stop()

		u = newUnpacker(coding)
		if err := u.feed([]byte("not packed at all"), drop); err == nil {
			t.Errorf("%s: read what is not packed", coding)
		}
		if err := u.feed([]byte("more"), drop); err != nil {
			t.Errorf("%s: what follows an error: %v", coding, err)
		}
		u.stop()

		u = newUnpacker(coding) // abandoned before and within
		u.stop()
		u = newUnpacker(coding)
		_ = u.feed(packed.Bytes()[:packed.Len()/2], drop)
		u.stop()
	}
	if newUnpacker("br") != nil || newUnpacker("") != nil {
		t.Error("an unpacker for what it cannot unpack")
	}
}

// The division of the input into pieces does not change the output, for any input.
func FuzzUnpacker(f *testing.F) {
	for _, text := range []string{"", "data: {}\n\n", strings.Repeat("data: long\n\n", 500)} {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = io.WriteString(z, text)
		_ = z.Flush()
		f.Add(packed.Bytes(), 1)
		_ = z.Close()
		f.Add(packed.Bytes(), 3)
		encoder, err := zstd.NewWriter(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoder.EncodeAll([]byte(text), nil), 2)
	}
	f.Fuzz(func(t *testing.T, packed []byte, size int) {
		for _, coding := range []string{"gzip", "zstd"} {
			unpack := func(size int) (string, bool) {
				u := newUnpacker(coding)
				defer u.stop()
				var out strings.Builder
				take := func(p []byte) error {
					if out.Len() > 1<<20 {
						return io.ErrShortBuffer
					}
					out.Write(p)
					return nil
				}
				for rest := packed; len(rest) > 0; {
					n := min(size, len(rest))
					if u.feed(rest[:n], take) != nil {
						return out.String(), false
					}
					rest = rest[n:]
				}
				return out.String(), u.end(take) == nil
			}
			whole, ok := unpack(max(1, len(packed)))
			pieces, same := unpack(1 + (size & 0xff))
			if whole != pieces || ok != same {
				t.Errorf("%s: %d bytes, %t in one piece, %d bytes, %t in pieces", coding, len(whole), ok, len(pieces), same)
			}
		}
	})
}
