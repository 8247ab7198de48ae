// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// files are the files of the repository whose names end so, by folder.
func files(t *testing.T, suffix string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") &&
			path != root):
			return fs.SkipDir
		case strings.HasSuffix(path, suffix):
			found[filepath.Dir(path)] = append(found[filepath.Dir(path)], path)
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("no files %s: %v", suffix, err)
	}
	return found
}

// unresolved is a doc link that leads nowhere, as it stays in plain text. Marks of capitals
// only, such as [DONE], are none.
var unresolved = regexp.MustCompile(`\[\*?((?:[a-z]\w*\.)?[A-Z]\w*[a-z]\w*(?:\.[A-Z]\w*)?)\]`)

// TestDocLinks: every doc link of a comment leads to a declaration.
func TestDocLinks(t *testing.T) {
	type source struct {
		fset  *token.FileSet
		files []*ast.File
		doc   *doc.Package
	}
	sources := map[string]*source{}
	for dir, paths := range files(t, ".go") {
		s := &source{fset: token.NewFileSet()}
		var declared []*ast.File
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(s.fset, path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			s.files = append(s.files, f)
			f, err = parser.ParseFile(s.fset, path, nil, parser.ParseComments) // which the package takes over
			if err != nil {
				t.Fatal(err)
			}
			declared = append(declared, f)
		}
		if declared == nil {
			continue
		}
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		id := strings.TrimSuffix(module+"/"+filepath.ToSlash(rel), "/.")
		if s.doc, err = doc.NewFromFiles(s.fset, declared, id, doc.AllDecls); err != nil {
			t.Fatal(err)
		}
		sources[id] = s
	}
	links := 0
	for _, id := range slices.Sorted(maps.Keys(sources)) {
		s := sources[id]
		p := s.doc.Parser()
		dead := func(c *ast.CommentGroup, link string) {
			t.Errorf("%s: [%s] leads nowhere", s.fset.Position(c.Pos()), link)
		}
		for _, f := range s.files {
			for _, c := range f.Comments {
				each(p.Parse(c.Text()), func(text comment.Text) {
					switch text := text.(type) {
					case comment.Plain:
						for _, m := range unresolved.FindAllStringSubmatch(string(text), -1) {
							dead(c, m[1])
						}
					case *comment.DocLink:
						links++
						if to := sources[text.ImportPath]; to != nil && text.Name != "" &&
							!to.doc.Parser().LookupSym(text.Recv, text.Name) {
							dead(c, strings.Trim(text.ImportPath+"."+text.Recv+"."+text.Name, "."))
						}
					}
				})
			}
		}
	}
	if links == 0 {
		t.Error("no links")
	}
}

// each calls f with every piece of text of a comment.
func each(d *comment.Doc, f func(comment.Text)) {
	texts := func(list []comment.Text) {
		for _, t := range list {
			f(t)
		}
	}
	var blocks func(list []comment.Block)
	blocks = func(list []comment.Block) {
		for _, b := range list {
			switch b := b.(type) {
			case *comment.Paragraph:
				texts(b.Text)
			case *comment.Heading:
				texts(b.Text)
			case *comment.List:
				for _, item := range b.Items {
					blocks(item.Content)
				}
			}
		}
	}
	blocks(d.Content)
}

var (
	link    = regexp.MustCompile(`\]\(([^)#: ]*)(#[^)]*)?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	mark    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestDocumentLinks: every link of a document leads to a file, and to a heading of it.
func TestDocumentLinks(t *testing.T) {
	for _, paths := range files(t, ".md") {
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range link.FindAllStringSubmatch(string(text), -1) {
				to, anchor := path, m[2]
				if m[1] != "" {
					to = filepath.Join(filepath.Dir(path), m[1])
				}
				target, err := os.Stat(to)
				if err != nil {
					t.Errorf("%s: %s leads nowhere", path, m[0])
					continue
				}
				if anchor == "" || target.IsDir() {
					continue
				}
				there, err := os.ReadFile(to)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(heading.FindAllStringSubmatch(string(there), -1), func(h []string) bool {
					return "#"+strings.ReplaceAll(mark.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == anchor
				}) {
					t.Errorf("%s: %s leads to no heading", path, m[0])
				}
			}
		}
	}
}
