// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func TestFormats(t *testing.T) {
	want := []wire.Format{
		wire.Anthropic, wire.OpenAIChat, wire.OpenAIResponses, wire.Gemini, wire.Interactions,
		"anthropic_vertex", "anthropic_bedrock",
	}
	if got := wire.Formats(); !slices.Equal(got, want) {
		t.Errorf("formats %q, want %q", got, want)
	}
	if f := wire.Format("morse"); f.Codec() != nil || *f.Traits() != (wire.Traits{}) {
		t.Error("a format that nobody knows has traits")
	}
}

// ofFormats matches the files of one format, or of a family of formats.
var ofFormats = regexp.MustCompile(`^internal/wire/\w+/`)

// TestComparisons checks that code outside the formats' own files compares no names of formats.
// Differences between formats are traits; only tables use the names.
func TestComparisons(t *testing.T) {
	const root = "../../.."
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (rel == "test" || strings.HasPrefix(d.Name(), ".") && rel != "."):
			return fs.SkipDir
		case !strings.HasSuffix(rel, ".go"), strings.HasSuffix(rel, "_test.go"), ofFormats.MatchString(rel):
			return nil
		}
		files++
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			var compared []ast.Expr
			switch n := n.(type) {
			case *ast.CaseClause:
				compared = n.List
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					compared = []ast.Expr{n.X, n.Y}
				}
			}
			for _, e := range compared {
				if named(e, f.Name.Name) {
					t.Errorf("%s: a format is told by its name", fset.Position(e.Pos()))
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files: %v", files, err)
	}
}

// named reports whether an expression is the name of a format.
func named(e ast.Expr, pkg string) bool {
	names := []string{"Anthropic", "OpenAIChat", "OpenAIResponses", "Gemini", "Interactions"}
	switch e := e.(type) {
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		return ok && x.Name == "wire" && slices.Contains(names, e.Sel.Name)
	case *ast.Ident:
		return pkg == "wire" && slices.Contains(names, e.Name)
	}
	return false
}
