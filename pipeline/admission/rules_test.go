// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// FuzzAdmitted sends any text, some lines of it many times over, through all rules of any source.
func FuzzAdmitted(f *testing.F) {
	for _, unit := range []string{
		"same line, and again\n", "\x1b[32m✓\x1b[0m passes\n\x1b\x1b[0m[31m x\b\b \r\n", "Downloading 10%\rDownloading 20%\r",
		" | \r\n",
		"a/b.go:12:x\na/b.go-13-y\n--\n", "a/b.go:12-c/d.go:12:x\n",
		"2026-11-20T10:11:12.345Z INFO a 1\n2026-11-20T10:11:13Z INFO a 2\n",
		"[2026/11/20 10:11:12] a error 1\n", "aB3+", "é", "error: é\nfine\n", "Receiving objects:  10% (1/10)\n",
		"Receiving objects:  20% (2/10)\nok \tx\n",
		"     1→x\n     2→y\n     3→x\n     4→y\n     5→x\n     6→y\n",
		"[x] Compiling a\nweb | Fetching b\n0123456789ab: Waiting\n", "[llm_cache: 3 lines of progress left out]\n",
	} {
		for kind := range uint8(5) {
			f.Add(unit, uint16(100), "\n", unit, kind, kind == 1)
		}
	}
	f.Add(numberedFile(40), uint16(1), "<system-reminder>x</system-reminder>", plainFile(40), uint8(3), false)
	f.Add("x\n", uint16(5000), numberedFile(40), plainFile(40), uint8(4), false)
	o := &Options{}
	f.Fuzz(func(t *testing.T, unit string, times uint16, tail, written string, kind uint8, failed bool) {
		text := strings.ToValidUTF8(strings.Repeat(unit, min(int(times), 1<<16/(len(unit)+1)))+tail, "?")
		from := &origin{source: 1 << (kind % 5), numbered: times%2 == 0, written: written, failed: failed}
		got := o.admitted(text, from)
		switch {
		case len(got) > len(text):
			t.Fatalf("%d bytes become %d", len(text), len(got))
		case !utf8.ValidString(got):
			t.Fatal("not UTF-8")
		case got != o.admitted(text, from):
			t.Fatal("not deterministic")
		case got != text && len(text) < minAdmission:
			t.Fatal("a short text was touched")
		}
		value, want := o.shortened(content.Append(nil, text), text, from), text
		if value != nil {
			want = content.Unquote(value)
		}
		if got != want {
			t.Fatalf("%q as a text, %q as a JSON string", got, want)
		}
		if quoted := string(content.Append(nil, got)); !gjson.Valid(quoted) || gjson.Parse(quoted).String() != got {
			t.Fatal("quoted wrongly")
		}
	})
}

// plainFile returns a file of some lines.
func plainFile(lines int) string {
	var s strings.Builder
	for i := range lines {
		fmt.Fprintf(&s, "\tline number %d of a file \n", i+1)
	}
	return s.String()
}

// numberedFile returns the same file as a tool shows it.
func numberedFile(lines int) string {
	var s strings.Builder
	n := 0
	for line := range strings.Lines(plainFile(lines)) {
		n++
		fmt.Fprintf(&s, "%6d→%s", n, line)
	}
	return s.String()
}

func BenchmarkAdmitted(b *testing.B) {
	var log strings.Builder
	for i := 0; log.Len() < 1<<20; i++ {
		switch i % 7 {
		case 0:
			fmt.Fprintf(&log, "2026-11-20T10:%02d:%02d.123Z \x1b[32mINFO\x1b[0m  served /users/%d in %dms\n", i/60%60,
				i%60, i, i%97)
		case 1:
			fmt.Fprintf(&log, "\x1b[33mwarning\x1b[0m: unused variable `x%d`   \n", i)
		case 2:
			fmt.Fprintf(&log, "    --> src/main.rs:%d:%d\n", i, i%80)
		case 3:
			fmt.Fprintf(&log, "Downloading  %d%%\rDownloading %d%%\n", i%50, i%100)
		case 4:
			fmt.Fprintf(&log, "test module::case_%d ... ok\n", i)
		default:
			fmt.Fprintf(&log, "   Compiling crate-%d v0.%d.0\n", i, i%30)
		}
	}
	text, o, from := log.String(), &Options{}, &origin{source: sourceCommand}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if got := o.admitted(text, from); len(got) >= len(text) {
			b.Fatalf("%d bytes", len(got))
		}
	}
}
