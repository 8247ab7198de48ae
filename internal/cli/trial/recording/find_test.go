// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	got, err := Find("../testdata/traces")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Name != "ferry-22222222" || got[1].Name != "gardener-11111111" {
		t.Fatalf("%d conversations", len(got))
	}
	g := got[1]
	if len(g.Parts) != 2 || g.Calls != 15 || strings.Join(g.Tools, " ") != "Bash Edit Read" || g.Overhead != 10_000 {
		t.Errorf("%+v", g)
	}
	if got[0].Overhead != 0 {
		t.Errorf("a recorded system prompt needs no filler of %d", got[0].Overhead)
	}
}

// Sessions with a common beginning have distinct names: some ids begin with the time or with the
// kind of id.
func TestNamesTellConversationsApart(t *testing.T) {
	const call = `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`
	folder := t.TempDir()
	for name, session := range map[string]string{
		"a": "ses_dfbb23aa", "b": "ses_dfbb17cc", "c": "01a2044e-5b80",
		"d": "01a2044e-5b80",
	} {
		trace := `{"agent":"opencode","session":"` + session + `"}` + "\n" + call
		if err := os.WriteFile(filepath.Join(folder, name+".jsonl"), []byte(trace), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Find(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	if got, want := strings.Join(names, " "),
		"opencode-01a2044e opencode-ses_dfbb17cc opencode-ses_dfbb23aa"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestBadTraces(t *testing.T) {
	const head, call = `{"agent":"a","session":"s"}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write([]byte(head + "\n" + call)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"empty":             "",
		"not JSON":          "hello",
		"no session":        `{"agent":"a"}`,
		"ends in the midst": head + "\n" + call[:30],
		"no messages":       head + "\n{}",
		"unknown role":      head + "\n" + strings.Replace(call, "user", "judge", 1),
		"ends with answer":  head + "\n" + strings.Replace(call, "user", "assistant", 1),
		"empty message":     head + "\n" + `{"messages":[{"role":"user","content":[]}]}`,
		"cut gzip":          zipped.String()[:zipped.Len()-12],
	} {
		path := filepath.Join(t.TempDir(), "t.jsonl.gz")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Find(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Find(t.TempDir()); err == nil {
		t.Error("an empty folder was taken")
	}
}
