// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// TestUserAdd: the key is shown once and in no file, and its hash names the user.
func TestUserAdd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.caddyfile")
	if err := os.WriteFile(file, []byte("# users\nuser ben sk-ben"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile(`llmc-[A-Za-z0-9_-]{43}\b`)
	hashed := func(key string) string {
		sum := sha256.Sum256([]byte(key))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	seen := map[string]bool{}
	for _, c := range []struct{ args, block []string }{
		{[]string{"anna"}, []string{"user", "anna", "{", "key", "HASH", "}"}},
		{
			[]string{"anna", "--file", file, "--group", "web", "--group", "night shift", "--url", "https://gateway.test/"},
			[]string{"user", "anna", "{", "key", "HASH", "group", "web", "night shift", "}"},
		},
		{[]string{`Ben "B" Beck`, "--file", file}, []string{"user", `Ben "B" Beck`, "{", "key", "HASH", "}"}},
	} {
		out, _, err := command(append([]string{"user", "add"}, c.args...)...)
		key := keys.FindString(out)
		if err != nil || key == "" || seen[key] {
			t.Fatalf("%q: %v\n%s", c.args, err, out)
		}
		seen[key] = true
		_, text, _ := strings.Cut(out, ":\n\n    user")
		text = "user" + text
		if len(c.args) > 1 {
			all, err := os.ReadFile(file)
			if err != nil || strings.Contains(string(all), key) {
				t.Fatalf("%v: the file has the key:\n%s", err, all)
			}
			text = string(all[strings.LastIndex(string(all), "\nuser ")+1:])
			if !strings.Contains(string(all), "user ben sk-ben\n") {
				t.Errorf("the file was changed:\n%s", all)
			}
		}
		tokens, err := caddyfile.Tokenize([]byte(text), "")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, token := range tokens {
			got = append(got, strings.ReplaceAll(token.Text, hashed(key), "HASH"))
		}
		if strings.Join(got, "|") != strings.Join(c.block, "|") {
			t.Errorf("%q: got %q, want %q", c.args, got, c.block)
		}
	}
	if out, _, _ := command("user", "add", "x", "--url", "https://gateway.test/"); !strings.Contains(out,
		"OPENAI_BASE_URL=https://gateway.test/v1 ") {
		t.Errorf("the address is missing:\n%s", out)
	}
	for _, args := range [][]string{
		{"*"},
		{""},
		{"{http.auth.user.id}"},
		{"{env.X}"},
		{"sk-secret"},
		{strings.Repeat("a", 65)},
		{"a\nb"},
		{},
		{"anna", "--group", "{x}"},
		{"anna", "--file", filepath.Join(file, "below a file")},
	} {
		if out, _, err := command(append([]string{"user", "add"}, args...)...); err == nil || keys.MatchString(out) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
}

// A misspelt subcommand must not pass for success in a script.
func TestUserSubcommand(t *testing.T) {
	if _, _, err := command("user", "ad", "anna"); err == nil || !strings.Contains(err.Error(), `must be one of add, got "ad"`) {
		t.Errorf("got %v, want an error that names the subcommands", err)
	}
	if out, _, err := command("user"); err != nil || !strings.Contains(out, "Makes keys of users") {
		t.Errorf("without a subcommand: %v, got %q, want the help", err, out)
	}
}
