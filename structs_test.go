// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package llmcache

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// mostFields is how many fields a struct may have that a request meets.
const mostFields = 15

// onPath are the rooms that a request passes, with all below them.
var onPath = []string{
	"barrier", "box", "errand", "handler", "hold", "keepalive", "layer", "pipeline", "sessioncache", "tenant", "translate", "upstream", "wire",
}

// wide are structs with more fields, and why they may have them.
var wide = map[string]string{
	"wire.Traits":              "a table: a line a fact, a literal a format",
	"translate.Rules":          "a table: a line a fact, a literal a dialect",
	"pipeline/planner.Input":   "what the planner is given, in four groups that one table of tests fills in",
	"sessioncache.Durable":     "a store: where it opens, what it writes, and when",
	"sessioncache.Lineage":     "a conversation, in seven groups, as snapshots have it",
	"sessioncache.Session":     "a session, as snapshots have it",
	"sessioncache/block.State": "a record of one block, packed by size",
}

// structType is a struct that was found.
type structType struct {
	fields   int      // without those of embedded structs
	embedded []string // structs of the same package
}

// TestNoWideStructs: what a request meets has few fields. A struct that is embedded counts with all of its own, so that
// none hides others; one behind a pointer, and one of another room, counts once. What is written or read as JSON has the
// members that its format has, and they do not count.
func TestNoWideStructs(t *testing.T) {
	found := map[string]*structType{}
	for _, room := range onPath {
		if err := filepath.WalkDir(room, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			pkg := filepath.ToSlash(filepath.Dir(path))
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					if s, ok := spec.Type.(*ast.StructType); ok {
						found[pkg+"."+spec.Name.Name] = fieldsOf(s, pkg)
					}
				}
				return true
			})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < 300 {
		t.Fatalf("%d structs are not all", len(found))
	}
	for name := range found {
		n := count(found, name)
		switch _, known := wide[name]; {
		case n > mostFields && !known:
			t.Errorf("%s has %d fields: group those that belong together, and pass on the group", name, n)
		case n <= mostFields && known:
			t.Errorf("%s has %d fields and needs no exception any more", name, n)
		}
	}
	for name := range wide {
		if found[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
}

func fieldsOf(s *ast.StructType, pkg string) *structType {
	out := new(structType)
	for _, f := range s.Fields.List {
		own, embeds := f.Type.(*ast.Ident)
		switch {
		case f.Tag != nil:
		case len(f.Names) > 0:
			out.fields += len(f.Names)
		case embeds:
			out.embedded = append(out.embedded, pkg+"."+own.Name)
		default:
			out.fields++
		}
	}
	return out
}

// count counts the fields of a struct with those that it embeds. What is embedded and no struct is one.
func count(found map[string]*structType, name string) int {
	s := found[name]
	if s == nil {
		return 1
	}
	n := s.fields
	for _, e := range s.embedded {
		n += count(found, e)
	}
	return n
}
