// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package golden runs tests whose inputs and outputs stand in txtar files. With the flag -rewrite
// the tests write the outputs.
package golden

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"
)

var rewrite = flag.Bool("rewrite", false, "write what the code yields into the txtar files of testdata")

// Section is a part of a file, under a line such as "-- upstream: anthropic official --".
type Section struct {
	// Kind is the word before the colon.
	Kind string
	// Args are the words after the colon.
	Args []string
	// Text is the content.
	Text string
}

// Run runs a subtest for each txtar file below a directory. The function replaces the text of the
// sections that are outputs. Each file begins with a comment on the rule that it stands for.
func Run(t *testing.T, dir string, f func(t *testing.T, sections []Section)) {
	t.Helper()
	seen := false
	err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		name, ok := strings.CutSuffix(file, ".txtar")
		if err != nil || !ok {
			return err
		}
		seen = true
		rel, err := filepath.Rel(dir, name)
		t.Run(filepath.ToSlash(rel), func(t *testing.T) { runFile(t, file, f) })
		return err
	})
	if err != nil || !seen {
		t.Fatalf("no txtar files in %s: %v", dir, err)
	}
}

func runFile(t *testing.T, file string, f func(*testing.T, []Section)) {
	t.Helper()
	archive := parse(t, file)
	sections := sectionsOf(archive)
	f(t, sections)
	changed := false
	for i, s := range sections {
		got := s.Text
		if got != "" && !strings.HasSuffix(got, "\n") {
			got += "\n" // as txtar has it
		}
		if want := string(archive.Files[i].Data); got != want {
			changed = true
			archive.Files[i].Data = []byte(got)
			if !*rewrite {
				t.Errorf("%s: got\n%s\nwant\n%s", archive.Files[i].Name, got, want)
			}
		}
	}
	if changed && *rewrite {
		if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Read returns the sections of a file.
func Read(tb testing.TB, file string) []Section {
	tb.Helper()
	return sectionsOf(parse(tb, file))
}

func parse(tb testing.TB, file string) *txtar.Archive {
	tb.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	archive := txtar.Parse(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")))
	if len(bytes.TrimSpace(archive.Comment)) == 0 {
		tb.Errorf("%s has no comment at the top", file)
	}
	return archive
}

func sectionsOf(archive *txtar.Archive) []Section {
	sections := make([]Section, len(archive.Files))
	for i, s := range archive.Files {
		kind, args, _ := strings.Cut(s.Name, ":")
		sections[i] = Section{Kind: kind, Args: strings.Fields(args), Text: string(s.Data)}
	}
	return sections
}

// width is the length at which lists and objects are broken into lines.
const width = 100

// Indent lays out JSON in lines, and keeps a list or an object that fits in one line there. Numbers,
// escapes and the order of members stay. Text that is not JSON is returned unchanged.
func Indent(b []byte) string {
	var one bytes.Buffer
	if json.Compact(&one, b) != nil {
		return string(b)
	}
	var out strings.Builder
	indent(&out, gjson.ParseBytes(one.Bytes()), "", 0)
	return out.String()
}

func indent(out *strings.Builder, v gjson.Result, margin string, before int) {
	if len(margin)+before+len(v.Raw) <= width || !v.IsObject() && !v.IsArray() || len(v.Raw) == 2 {
		out.WriteString(v.Raw)
		return
	}
	brackets, inner, first := "[]", margin+"  ", true
	if v.IsObject() {
		brackets = "{}"
	}
	out.WriteByte(brackets[0])
	v.ForEach(func(key, value gjson.Result) bool {
		if !first {
			out.WriteByte(',')
		}
		first = false
		out.WriteString("\n" + inner)
		n := 0
		if v.IsObject() {
			out.WriteString(key.Raw + ":")
			n = len(key.Raw) + 1
		}
		indent(out, value, inner, n)
		return true
	})
	out.WriteString("\n" + margin)
	out.WriteByte(brackets[1])
}

// Compact undoes [Indent]. Text that is not JSON is returned unchanged.
func Compact(s string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(s)) != nil {
		return s
	}
	return b.String()
}
