// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// keeping loads a site that keeps folded texts on disk, after all that ran before
// it has ended, as after a restart of the process.
func (p *proxy) keeping(site, originals string) {
	p.t.Helper()
	p.caddy.Stop(p.t)
	p.move()
	p.load([]byte(strings.Replace(string(p.config(site)), `"apps":{`, `"apps":{"llm_cache":{"originals":`+originals+`},`,
		1)))
}

// A text that the client has dropped comes back after a restart, too: to the
// tenant that it belongs to, as long as the key is the same. Nobody but its owner
// can read the key, and nothing of the text stands in the files.
func TestOriginalsSurviveRestart(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "texts")
	byFile := `{"folder":` + js(folder) + `,"key_file":` + js(filepath.Join(dir, "a.key")) + `}`
	otherKey := `{"folder":` + js(folder) + `,"key":"{env.LLM_CACHE_TEST_KEY}"}`
	t.Setenv("LLM_CACHE_TEST_KEY", strings.Repeat("ab", 32))
	file := history(1)[2].pieces[0].text
	for _, g := range tongues {
		known, asks := "", false
		p, u := g.fold(t, true, func(name string, _ int) []piece {
			if name != "" {
				known = name
			}
			if asks {
				asks = false
				return []piece{expands("call_e", known)}
			}
			return []piece{text("Ok.")}
		})
		ask := func(h []remark, key string) string {
			read(t, p.post(g.path(true), g.request(h, true), "Authorization", key))
			outline := g.outline(t, u.last().body)
			return outline[len(outline)-1]
		}
		site := pruning(u)
		p.keeping(site, byFile)
		ask(history(4), "one")
		ask(history(5), "one")
		if known == "" {
			t.Fatalf("%s: nothing was folded", g.format)
		}
		whole := history(6)
		dropped := append(whole[:1:1], whole[3:]...)
		for _, c := range []struct{ name, originals, key, want string }{
			{"the same", byFile, "one", file},
			{"another tenant", byFile, "two", ""},
			{"another key", otherKey, "one", ""},
			{"the same again", byFile, "one", file},
		} {
			p.keeping(site, c.originals)
			asks = true
			got := ask(dropped, c.key)
			if want := "tool_result: call_e " + c.want; c.want != "" && got != want || c.want == "" &&
				!strings.Contains(got, "Unknown block") {
				t.Errorf("%s, %s: got %.200s", g.format, c.name, got)
			}
		}
	}
	key, err := os.ReadFile(filepath.Join(dir, "a.key"))
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := hex.DecodeString(strings.TrimSpace(string(key))); err != nil || len(raw) != 32 {
		t.Errorf("the key is %q", key)
	}
	n := 0
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), "line of file") {
			t.Errorf("%s can be read, %v", path, err)
		}
		return nil
	})
	if err != nil || n < 4 {
		t.Errorf("%d files, %v", n, err)
	}
}

// A key that is none, or may be read by others, keeps the site from starting, and
// is not shown.
func TestOriginalsKey(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, pruning(u))
	file := filepath.Join(t.TempDir(), "a.key")
	if err := os.WriteFile(file, []byte(strings.Repeat("ab", 32)), 0o644); err != nil {
		t.Fatal(err)
	}
	for originals, want := range map[string]string{
		`{"key":"abcdef"}`:                        "key: must be 32 bytes",
		`{"key":"{env.LLM_CACHE_UNSET}"}`:         "key: ",
		`{"key_file":` + js(file) + `}`:           "may be read by others",
		`{"key":"a","key_file":` + js(file) + `}`: "only one of them",
	} {
		cfg := strings.Replace(string(p.config(pruning(u))), `"apps":{`, `"apps":{"llm_cache":{"originals":`+originals+`},`,
			1)
		err := p.caddy.Load([]byte(cfg))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "abcdef") {
			t.Errorf("%s: %v", originals, err)
		}
	}
}
