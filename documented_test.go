// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package llmcache

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
)

// TestOptionsAreDocumented: each option of a parser begins a line of a listing in
// docs/reference/caddyfile.md, and each such line begins with a known option.
func TestOptionsAreDocumented(t *testing.T) {
	known := optionNames(t)
	if len(known) < 100 {
		t.Fatalf("only %d options were found: %v", len(known), known)
	}
	_, listing, _ := strings.Cut(syntax, "## Syntax\n")
	listing, _, _ = strings.Cut(listing, "\n## ")
	others := []string{"}", "llm_cache", "<options", "<directives>", "lb_policy"} // first words of lines that are no option of a block
	listed := map[string]bool{}
	for line := range strings.Lines(listing) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if !strings.HasPrefix(line, "        ") || len(fields) == 0 || slices.Contains(others, fields[0]) ||
			strings.HasPrefix(line, strings.Repeat(" ", 24)) {
			continue // prose, directives, and continued lines
		}
		for name := range strings.SplitSeq(fields[0], "|") {
			if listed[name] = true; !known[name] {
				t.Errorf("docs/reference/caddyfile.md lists %q, which no parser knows", name)
			}
		}
	}
	for name := range known {
		if !listed[name] {
			t.Errorf("docs/reference/caddyfile.md does not list the option %q", name)
		}
	}
}

// optionNames returns the names of all options: the keys of the maps passed to option.Block.
func optionNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	key := func(e ast.Expr) {
		if s, ok := e.(*ast.BasicLit); ok && s.Kind == token.STRING {
			name, _ := strconv.Unquote(s.Value)
			names[name] = true
		}
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "cmd") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if s, ok := n.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Options" && isNamed(s.X, "option") {
					for _, e := range n.Elts {
						key(e.(*ast.KeyValueExpr).Key)
					}
				}
			case *ast.AssignStmt: // storeOptions["batch"] = …
				if i, ok := n.Lhs[0].(*ast.IndexExpr); ok && isNamed(i.X, "storeOptions") {
					key(i.Index)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func isNamed(e ast.Expr, name string) bool {
	i, ok := e.(*ast.Ident)
	return ok && i.Name == name
}

// TestMetricsAreDocumented: each metric of a process without sites is named in the texts, in full
// or without the prefix caddy_llm_cache_, and each such name in the texts is a metric.
func TestMetricsAreDocumented(t *testing.T) {
	reg := prometheus.NewRegistry()
	if err := metric.Register(shared.Process, reg); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var texts strings.Builder
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		texts.Write(text)
	}
	const prefix = "caddy_llm_cache_"
	// Metrics by policy, format, person, project, model, site or budget, and those of a control group, exist once they have a value.
	known := map[string]bool{
		"requests_total": true, "translations_total": true, "budget_used_ratio": true, "budget_forecast_ratio": true, "holdout": true,
	}
	for _, by := range []string{"person", "project", "model", "site"} {
		for _, what := range []string{"cost_usd", "tokens", "turns"} {
			known[by+"_"+what+"_total"] = true
		}
	}
	for _, f := range families {
		if name, ours := strings.CutPrefix(f.GetName(), prefix); ours {
			known[name] = true
		}
	}
	if len(known) < 60 {
		t.Fatalf("only %d metrics were found", len(known))
	}
	for name := range known {
		if !regexp.MustCompile(`(` + prefix + "|[`_…])" + name + `\b`).MatchString(texts.String()) {
			t.Errorf("%s%s is in none of the texts", prefix, name)
		}
	}
	for _, m := range regexp.MustCompile(prefix+"([a-z0-9_]*[a-z0-9])\\b`?").FindAllStringSubmatch(texts.String(), -1) {
		if !known[m[1]] && !strings.HasSuffix(m[0], "_") {
			t.Errorf("the texts name %s%s, which is no metric", prefix, m[1])
		}
	}
}

// TestContainerGetsVariables: all environment variables of the container's Caddyfile are passed to
// the container.
func TestContainerGetsVariables(t *testing.T) {
	file, err := os.ReadFile("packaging/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	compose, err := os.ReadFile("packaging/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\{\$(\w+)`).FindAllSubmatch(file, -1) {
		if !strings.Contains(string(compose), "\n      "+string(m[1])+": ") {
			t.Errorf("packaging/compose.yaml does not pass on %s", m[1])
		}
	}
}
