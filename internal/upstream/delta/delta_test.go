// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package delta_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/delta"
)

// body returns a request with a number of turns, and tools after the messages. The turn marked
// carries the marker.
func body(turns, marked int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"m","messages":[{"role":"user","content":"Fix it."}`)
	noise := rand.New(rand.NewPCG(1, 2))
	for i := range turns {
		fmt.Fprintf(&b,
			`,{"role":"assistant","content":[{"type":"tool_use","id":"t%d","name":"Read"}]},{"role":"user",`+
				`"content":[{"type":"tool_result","tool_use_id":"t%d","content":"`, i, i)
		for range 200 {
			fmt.Fprintf(&b, "line %x\\n", noise.Uint64())
		}
		b.WriteString(`"`)
		if i == marked {
			b.WriteString(`,"cache_control":{"type":"ephemeral"}`)
		}
		b.WriteString(`}]}`)
	}
	noise = rand.New(rand.NewPCG(3, 4))
	b.WriteString(`],"tools":[`)
	for i := range 300 {
		fmt.Fprintf(&b, `{"name":"t%d","description":"%x"},`, i, noise.Uint64())
	}
	b.WriteString(`{}]}`)
	return b.Bytes()
}

const seed = delta.Seed(7)

func program(dst, base, body []byte) []byte {
	p, _ := seed.Append(dst, seed.Text(base), seed.Text(body))
	return p
}

func TestMake(t *testing.T) {
	long := body(40, 39)
	folded := bytes.Replace(bytes.ReplaceAll(long, []byte(`"name":"Read"`), []byte(`"name":"Read","note":"x"`)),
		[]byte("line "), []byte("row "), 300)
	turned := append(append([]byte(nil), long[len(long)/2:]...), long[:len(long)/2]...)
	for _, test := range []struct {
		name       string
		base, body []byte
		percent    int // maximum size of the program, in percent of the body
	}{
		{"nothing", nil, nil, 100},
		{"the first", nil, long, 80},
		{"the same", long, long, 1},
		{"one turn more, the marker moved", body(39, 38), long, 3},
		{"one turn less", long, body(39, 38), 1},
		{"folded in many places", long, folded, 5},
		{"halves exchanged", long, turned, 1},
		{"short", []byte("abc"), []byte("abd"), 2000},
		{"all alike", bytes.Repeat([]byte("a"), 1<<20), bytes.Repeat([]byte("a"), 1<<20-7), 1},
		{"periods", []byte(strings.Repeat("ab", 1<<18)), []byte("x" + strings.Repeat("ba", 1<<18) + "y"), 1},
		{"becomes empty", long, nil, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, common := seed.Append([]byte("before"), seed.Text(test.base), seed.Text(test.body))
			p = p[len("before"):]
			if q, n := seed.Append(nil, delta.Text{Body: test.base}, seed.Text(test.body)); n != common || !bytes.Equal(p, q) {
				t.Errorf("compared by hashes they share %d bytes, by themselves %d", common, n)
			}
			if !bytes.Equal(test.base[:common], test.body[:common]) || common < min(len(test.base), len(test.body)) &&
				test.base[common] == test.body[common] {
				t.Errorf("they do not begin with the same %d bytes", common)
			}
			got, err := delta.Make(test.base, p, int64(len(test.body)))
			if err != nil || !bytes.Equal(got, test.body) {
				t.Fatalf("%d bytes came out of %d, %v", len(got), len(test.body), err)
			}
			if n, err := delta.Size(p); err != nil || n != int64(len(test.body)) {
				t.Errorf("the size is %d, %v", n, err)
			}
			if len(p) > 40+len(test.body)*test.percent/100 {
				t.Errorf("a program of %d bytes for %d", len(p), len(test.body))
			}
			if len(test.body) > 0 {
				if _, err := delta.Make(test.base, p, int64(len(test.body)-1)); !errors.Is(err, delta.ErrTooLarge) {
					t.Errorf("one byte too many: %v", err)
				}
			}
			if len(test.base) > 100 && len(test.body) > 0 {
				other := bytes.Clone(test.base)
				other[len(other)/2] ^= 1
				if got, err := delta.Make(other, p, 1<<30); err == nil && !bytes.Equal(got, test.body) {
					t.Error("another base makes another body, and nobody notices")
				}
				if _, err := delta.Make(other[1:], p, 1<<30); !errors.Is(err, delta.ErrProgram) {
					t.Errorf("a base of another length: %v", err)
				}
			}
		})
	}
}

// TestHostile: a program that claims a large body allocates no memory for it.
func TestHostile(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := z.EncodeAll(make([]byte, 1<<28), nil)
	head := func(size, base, steps uint64) []byte {
		p := binary.LittleEndian.AppendUint64(binary.AppendUvarint([]byte("llm\x02"), size), uint64(seed))
		sum := xxh3.Hash128Seed(make([]byte, 10), uint64(seed)).Bytes()
		sum = xxh3.Hash128Seed(sum[:], uint64(seed)).Bytes()
		return binary.AppendUvarint(binary.AppendUvarint(append(p, sum[:]...), base), steps)
	}
	literal := func(n uint64, coding byte, raw ...byte) []byte {
		p := binary.AppendUvarint(head(10, 0, 1), n<<1|1)
		return append(append(binary.AppendUvarint(p, n), coding), raw...)
	}
	for name, p := range map[string][]byte{
		"empty":                   nil,
		"no head":                 []byte("llm\x02"),
		"no seed":                 []byte("llm\x02\x05abc"),
		"no hash":                 []byte("llm\x02\x05" + strings.Repeat("a", 8+15)),
		"of another version":      append([]byte("llm\x01"), literal(10, 0, make([]byte, 10)...)[4:]...),
		"many steps":              head(10, 0, 1<<40),
		"a copy beyond the base":  append(head(10, 3, 1), 20, 0, 0, 0),
		"a copy from beyond":      append(head(10, 3, 1), 20, 4, 0, 0),
		"a long number":           append(head(10, 3, 1), bytes.Repeat([]byte{0xff}, 11)...),
		"more than it says":       append(head(10, 3, 4), 6, 0, 6, 0, 6, 0, 6, 0, 0, 0),
		"less than it says":       append(head(10, 3, 1), 6, 0, 0, 0),
		"a bomb":                  literal(10, 1, bomb...),
		"literals of another len": literal(10, 0, 1, 2, 3),
		"an unknown coding":       literal(10, 2, make([]byte, 10)...),
		"no zstd":                 literal(10, 1, make([]byte, 10)...),
		"cut":                     program(nil, nil, body(2, 0))[:300],
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := delta.Make([]byte("abc")[:min(3, len(p))], p, 1<<20); !errors.Is(err, delta.ErrProgram) {
				if _, err := delta.Make(nil, p, 1<<20); !errors.Is(err, delta.ErrProgram) {
					t.Errorf("made, or %v", err)
				}
			}
		})
	}
	if got, err := delta.Make(nil, literal(10, 0, make([]byte, 10)...), 10); err != nil || len(got) != 10 {
		t.Fatalf("the honest one: %v", err)
	}
	if _, err := delta.Make(nil, literal(10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0), 10); !errors.Is(err, delta.ErrHash) {
		t.Errorf("another body: %v", err)
	}
	if n := testing.AllocsPerRun(5, func() { _, _ = delta.Make(nil, literal(10, 1, bomb...), 10) }); n > 200 {
		t.Errorf("a bomb takes %v allocations", n)
	}
}

// FuzzAppend: decoding reverses encoding.
func FuzzAppend(f *testing.F) {
	f.Add([]byte("the quick brown fox jumps over the lazy dog, twice over"),
		[]byte("the quick brown cat jumps over the lazy dog, twice over"))
	f.Add(body(2, 1)[:4000], body(3, 2)[:5000])
	f.Add([]byte{}, []byte("x"))
	f.Fuzz(func(t *testing.T, base, body []byte) {
		got, err := delta.Make(base, program(nil, base, body), int64(len(body)))
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("%q became %q, %v", body, got, err)
		}
	})
}

// FuzzMake: an arbitrary program builds no body over the limit, and only a body with the claimed
// hash.
func FuzzMake(f *testing.F) {
	base := body(3, 2)[:6000]
	f.Add(program(nil, base, body(3, 1)[:6500]))
	f.Add(program(nil, base, base))
	f.Add(program(nil, base, []byte("none of it")))
	f.Fuzz(func(t *testing.T, p []byte) {
		got, err := delta.Make(base, p, 1<<16)
		if err != nil {
			return
		}
		if n, err := delta.Size(p); err != nil || n != int64(len(got)) || n > 1<<16 {
			t.Fatalf("%d bytes, and it said %d, %v", len(got), n, err)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	n := 1
	for len(body(n, n)) < 1<<20 {
		n += 5
	}
	base, next := body(n-1, n-2), body(n, n-1)
	b.Run("known", func(b *testing.B) {
		b.SetBytes(int64(len(next)))
		var dst []byte
		before := seed.Text(base)
		for b.Loop() {
			dst, _ = seed.Append(dst[:0], before, seed.Text(next))
		}
		b.ReportMetric(float64(len(dst)), "wire-B")
	})
	b.Run("unknown", func(b *testing.B) {
		b.SetBytes(int64(len(next)))
		var dst []byte
		for b.Loop() {
			dst = program(dst[:0], nil, next)
		}
		b.ReportMetric(float64(len(dst)), "wire-B")
	})
	b.Run("folded", func(b *testing.B) {
		folded := bytes.ReplaceAll(next, []byte(`"name":"Read"`), []byte(`"name":"Read","note":"x"`))
		b.SetBytes(int64(len(folded)))
		var dst []byte
		for b.Loop() {
			dst = program(dst[:0], base, folded)
		}
		b.ReportMetric(float64(len(dst)), "wire-B")
	})
	made := program(nil, base, next)
	b.Run("make", func(b *testing.B) {
		b.SetBytes(int64(len(next)))
		for b.Loop() {
			if _, err := delta.Make(base, made, 1<<24); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestSteps: a program's steps allocate no memory beyond the body, however many there are.
func TestSteps(t *testing.T) {
	const n = 1 << 20
	sum := xxh3.Hash128Seed(nil, uint64(seed)).Bytes()
	p := binary.LittleEndian.AppendUint64([]byte("llm\x02\x00"), uint64(seed)) // of an empty body
	p = binary.AppendUvarint(append(append(p, sum[:]...), 0), n)
	p = append(p, bytes.Repeat([]byte{1}, n)...) // empty literals
	p = append(p, 0, 0)
	var before, behind runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = delta.Make(nil, p, 1<<20)
	runtime.ReadMemStats(&behind)
	if got := behind.TotalAlloc - before.TotalAlloc; got > n {
		t.Errorf("a program of %d bytes that makes nothing takes %d bytes", len(p), got)
	}
}
