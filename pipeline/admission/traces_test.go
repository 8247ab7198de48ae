// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// recordedResult is a tool result of a recorded conversation.
type recordedResult struct {
	conversation string
	origin       *origin
	text         string
}

// recordedResults reads the tool results of the recorded conversations, from the folder in
// LLM_CACHE_TRACES or beside the module.
func recordedResults(t *testing.T) []recordedResult {
	t.Helper()
	files := testkit.RecordingFiles(t)
	var out []recordedResult
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(z)
		lines.Buffer(nil, 64<<20)
		calls := map[string]gjson.Result{}
		for lines.Scan() {
			gjson.GetBytes(bytes.Clone(lines.Bytes()), "messages.#.content|@flatten").ForEach(func(_, b gjson.Result) bool {
				switch b.Get("type").Str {
				case "tool_use":
					calls[b.Get("id").Str] = b
				case "tool_result":
					call := calls[b.Get("tool_use_id").Str]
					o := originOf(call.Get("name").Str, call.Get("input"), b.Get("is_error").Bool())
					content := b.Get("content")
					if !content.IsArray() {
						out = append(out, recordedResult{filepath.Base(name), &o, content.Str})
						break
					}
					for _, text := range content.Get("#.text").Array() {
						out = append(out, recordedResult{filepath.Base(name), &o, text.Str})
					}
				}
				return true
			})
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestAdmissionOfRecordedConversations logs the savings of each rule on recorded conversations,
// alone and as a share of all characters of tool results. It checks that no line of a file is lost.
func TestAdmissionOfRecordedConversations(t *testing.T) {
	results := recordedResults(t)
	total := 0
	for i := range results {
		total += len(results[i].text)
	}
	fields := reflect.TypeFor[Options]()
	for n := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(n).Tag.Get("json"), ",")
		if fields.Field(n).Type.Kind() != reflect.Pointer || name == "rereads" || name == "overlaps" || name == "replaced" {
			continue
		}
		o, saved, touched := only(n), 0, 0
		for i := range results {
			r := &results[i]
			got := o.admitted(r.text, r.origin)
			if got == r.text {
				continue
			}
			touched++
			saved += len(r.text) - len(got)
			if os.Getenv("SHOW") == name {
				t.Logf("=== %s %d -> %d\n%s\n--------\n%s", r.conversation, len(r.text), len(got), r.text, got)
			}
			if lost := lostLine(r, got); lost != "" {
				t.Errorf("%s: %s loses the line %q", r.conversation, name, lost)
			}
		}
		t.Logf("%-16s %6d characters, %.2f %% of all, in %d results", name, saved, 100*float64(saved)/float64(total), touched)
	}
}

// only switches off every rule except one.
func only(field int) *Options {
	o, no := &Options{}, false
	v := reflect.ValueOf(o).Elem()
	for n := range v.NumField() {
		if n != field && v.Field(n).Kind() == reflect.Pointer {
			v.Field(n).Set(reflect.ValueOf(&no))
		}
	}
	return o
}

// lostLine returns a line of a file that a result contains, but neither its sent form nor its call.
func lostLine(r *recordedResult, got string) string {
	if r.origin.source&(sourceRead|sourceSearch|sourceWrite) == 0 {
		return ""
	}
	for line := range strings.Lines(r.text) {
		line = chomp(line)
		if pad, n, sep := plain.numberedLine(line); n > 0 {
			line = line[pad+n+sep:]
		} else if n := hitPath(line); n > 0 {
			line = line[n+1:]
		}
		if !strings.Contains(got, line) && !strings.Contains(r.origin.written, line) {
			return line
		}
	}
	return ""
}
