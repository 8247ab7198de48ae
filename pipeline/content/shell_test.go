// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Of several commands in a line, the one that shows or changes a file determines the class of the
// line.
func TestCommandLines(t *testing.T) {
	for _, c := range []struct {
		line  string
		class sessioncache.Class
		path  string
		whole bool
	}{
		{"cat src/a.go", sessioncache.ClassRead, "src/a.go", true},
		{"nl -ba src/a.go | sed -n '1,90p'", sessioncache.ClassRead, "src/a.go", false},
		{"git status --short && git diff -- src/lock.rs | sed -n '1,380p'", sessioncache.ClassRead, "src/lock.rs", false},
		{"rg -n Lock src/b.rs; sed -n '40,90p' src/lock.rs", sessioncache.ClassRead, "src/lock.rs", false},
		{"cargo fmt\ngit diff -- src/lock.rs", sessioncache.ClassRead, "src/lock.rs", false},
		{"ls src/ && cat src/a.go", sessioncache.ClassRead, "src/a.go", false},
		{"cat src/a.go && cat src/b.go", sessioncache.ClassRead, "src/a.go", false},
		{"gh pr diff 39", sessioncache.ClassRead, "", false},
		{"for f in a b; do sed -n '1,20p' src/lock.rs; done", sessioncache.ClassRead, "src/lock.rs", false},
		{"rg -n Lock src/lock.rs | head -20", sessioncache.ClassSearch, "src/lock.rs", false},
		{"git status --short && rg Lock src/b.rs", sessioncache.ClassSearch, "", false},
		{"go build ./... 2>&1 | tail -3", sessioncache.ClassCommand, "", false},
		{"gh run view 5 --log | sed -n '1,90p'", sessioncache.ClassCommand, "", false},
		{"ls src && sed -i 's/a/b/' src/a.go", sessioncache.ClassEdit, "src/a.go", false},
		{"python3 - <<'E'\nprint(1)\nE", sessioncache.ClassCommand, "", false},
	} {
		got := Call{Class: sessioncache.ClassCommand, Argument: c.line}
		got.command()
		if got.Class != c.class || got.Path != c.path || got.Whole != c.whole {
			t.Errorf("%s: %v, %q, whole %t; want %v, %q, %t", c.line, got.Class, got.Path, got.Whole, c.class, c.path, c.whole)
		}
	}
}
