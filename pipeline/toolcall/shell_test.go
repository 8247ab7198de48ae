// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package toolcall

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/block"
)

// Of several commands in a line the one that shows or changes a file says what the line
// is for.
func TestCommandLines(t *testing.T) {
	for _, c := range []struct {
		line  string
		class block.Class
		path  string
		whole bool
	}{
		{"cat src/a.go", block.ClassRead, "src/a.go", true},
		{"nl -ba src/a.go | sed -n '1,90p'", block.ClassRead, "src/a.go", false},
		{"git status --short && git diff -- src/lock.rs | sed -n '1,380p'", block.ClassRead, "src/lock.rs", false},
		{"rg -n Lock src/b.rs; sed -n '40,90p' src/lock.rs", block.ClassRead, "src/lock.rs", false},
		{"cargo fmt\ngit diff -- src/lock.rs", block.ClassRead, "src/lock.rs", false},
		{"ls src/ && cat src/a.go", block.ClassRead, "src/a.go", false},
		{"cat src/a.go && cat src/b.go", block.ClassRead, "src/a.go", false},
		{"gh pr diff 39", block.ClassRead, "", false},
		{"for f in a b; do sed -n '1,20p' src/lock.rs; done", block.ClassRead, "src/lock.rs", false},
		{"rg -n Lock src/lock.rs | head -20", block.ClassSearch, "src/lock.rs", false},
		{"git status --short && rg Lock src/b.rs", block.ClassSearch, "", false},
		{"go build ./... 2>&1 | tail -3", block.ClassCommand, "", false},
		{"gh run view 5 --log | sed -n '1,90p'", block.ClassCommand, "", false},
		{"ls src && sed -i 's/a/b/' src/a.go", block.ClassEdit, "src/a.go", false},
		{"python3 - <<'E'\nprint(1)\nE", block.ClassCommand, "", false},
	} {
		got := Call{Class: block.ClassCommand, Argument: c.line}
		got.command()
		if got.Class != c.class || got.Path != c.path || got.Whole != c.whole {
			t.Errorf("%s: %v, %q, whole %t; want %v, %q, %t", c.line, got.Class, got.Path, got.Whole, c.class, c.path, c.whole)
		}
	}
}
