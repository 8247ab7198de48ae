// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

var rewrite = flag.Bool("rewrite", false, "write what the rules of admission yield into testdata")

// controls are the characters that samples show by their pictures.
var controls = strings.NewReplacer("␛", "\x1b", "␍", "\r", "␈", "\b")

// beforeAfter is a tool result before and after admission.
type beforeAfter struct {
	head, before, after string
	rule                int // the field of Admission
	origin              *origin
}

func readSample(t *testing.T, file string) beforeAfter {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), "--- before\n")
	before, after, ok2 := strings.Cut(rest, "--- after\n")
	if !ok || !ok2 {
		t.Fatal("not a sample")
	}
	s := beforeAfter{head: head, before: before, after: after, rule: -1}
	fields := map[string]string{}
	for line := range strings.Lines(head) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		fields[name] = value
	}
	o := originOf(fields["tool"], gjson.Parse(fields["input"]), fields["error"] == "true")
	s.origin = &o
	admission := reflect.TypeFor[Options]()
	for n := range admission.NumField() {
		if name, _, _ := strings.Cut(admission.Field(n).Tag.Get("json"), ","); name == fields["rule"] {
			s.rule = n
		}
	}
	if s.rule < 0 {
		t.Fatalf("no rule %q", fields["rule"])
	}
	return s
}

// TestSamples compares realistic results with their expected form. The rule in a sample's name must
// make the change.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			s := readSample(t, file)
			text := strings.TrimSuffix(controls.Replace(s.before), "\n")
			got := (&Options{}).admitted(text, s.origin)
			if *rewrite {
				if err := os.WriteFile(file, []byte(s.head+"--- before\n"+s.before+"--- after\n"+got+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := strings.TrimSuffix(s.after, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if got == text {
				t.Error("nothing changes")
			}
			without, no := &Options{}, false
			reflect.ValueOf(without).Elem().Field(s.rule).Set(reflect.ValueOf(&no))
			if without.admitted(text, s.origin) == got {
				t.Error("the rule changes nothing")
			}
			if only(s.rule).admitted(text, s.origin) == text {
				t.Error("the rule alone changes nothing")
			}
			if again := (&Options{}).admitted(got, s.origin); again != got {
				t.Errorf("the second time it becomes\n%s", again)
			}
			if lost := lostLine(&recordedResult{origin: s.origin, text: text}, got); lost != "" {
				t.Errorf("the line %q of a file is lost", lost)
			}
		})
	}
}
