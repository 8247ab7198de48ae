// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Command reference writes docs/reference/json.md: what the configuration in JSON may hold, from the
// comments in the source.
//
//	go run ./internal/reference >docs/reference/json.md
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/caddy-llm-cache/caddy-llm-cache"

func main() {
	if err := Write(os.Stdout, "."); err != nil {
		log.Fatal(err)
	}
}

// source is the types of a repository, by folder and name.
type source map[string]map[string]*declared

// declared is a type.
type declared struct {
	folder  string
	doc     string
	expr    ast.Expr
	imports map[string]string // folders of this repository, by the names that they go by in the file
	module  string            // the id, if it is a module of Caddy's
}

// Write writes the reference of the repository in a folder.
func Write(w io.Writer, root string) error {
	all, err := read(root)
	if err != nil {
		return err
	}
	var modules []*declared
	for _, types := range all {
		for _, d := range types {
			if d.module != "" {
				modules = append(modules, d)
			}
		}
	}
	slices.SortFunc(modules, func(a, b *declared) int { return strings.Compare(a.module, b.module) })
	out := bufio.NewWriter(w)
	fmt.Fprint(out, `# JSON

What a Caddyfile says can be said in [JSON](https://caddyserver.com/docs/json/), too: handlers stand in a route's `+"`handle`"+`, the app is
`+"`apps.llm_cache`"+`. Durations are nanoseconds, or texts such as "5m"; sizes are bytes. This page is made from the comments in the source, by
`+"`go run ./internal/reference`"+`.
`)
	for _, m := range modules {
		rows := all.rows(m, "", nil)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n## %s\n\n%s\n\n| member | type | |\n|---|---|---|\n", m.module, m.doc)
		for _, r := range rows {
			fmt.Fprintf(out, "| `%s` | %s | %s |\n", r.member, r.kind, r.doc)
		}
	}
	return out.Flush()
}

type row struct{ member, kind, doc string }

// rows are the members of a type in JSON, those of members included.
func (s source) rows(d *declared, path string, inside []*declared) (rows []row) {
	fields, ok := d.expr.(*ast.StructType)
	if !ok || slices.Contains(inside, d) {
		return nil
	}
	inside = append(inside, d)
	for _, f := range fields.Fields.List {
		of := s.named(d, f.Type)
		name := tag(f, "json")
		switch {
		case len(f.Names) == 0 && name == "" && of != nil: // embedded
			rows = append(rows, s.rows(of, path, inside)...)
			continue
		case name == "" || name == "-":
			continue
		}
		member := path + name
		rows = append(rows, row{member, s.kind(d, f), text(f.Doc)})
		if of == nil {
			continue
		}
		if _, list := f.Type.(*ast.ArrayType); list {
			member += "[]"
		}
		rows = append(rows, s.rows(of, member+".", inside)...)
	}
	return rows
}

// kind says what JSON a field is.
func (s source) kind(d *declared, f *ast.Field) string {
	if namespace, key, ok := strings.Cut(strings.TrimPrefix(tag(f, "caddy"), "namespace="), " inline_key="); ok {
		return "a module of `" + namespace + "`, named in `" + key + "`"
	}
	if id, ok := strings.CutPrefix(tag(f, "caddy"), "module="); ok {
		return "options of `" + id + "`"
	}
	return s.plain(d, f.Type)
}

func (s source) plain(d *declared, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return s.plain(d, e.X)
	case *ast.ArrayType:
		return "list of " + s.plain(d, e.Elt)
	case *ast.MapType:
		return "object of " + s.plain(d, e.Value)
	case *ast.StructType:
		return "object"
	case *ast.Ident:
		switch e.Name {
		case "string":
			return "text"
		case "bool":
			return "true or false"
		}
		if of := s.named(d, e); of != nil {
			return s.plain(of, of.expr)
		}
		if strings.HasPrefix(e.Name, "int") || strings.HasPrefix(e.Name, "uint") || strings.HasPrefix(e.Name, "float") {
			return "number"
		}
	case *ast.SelectorExpr:
		if of := s.named(d, e); of != nil {
			return s.plain(of, of.expr)
		}
		if e.Sel.Name == "Duration" {
			return "duration"
		}
	}
	return "value"
}

// named is the type of this repository that an expression names, nil if it names none.
func (s source) named(d *declared, e ast.Expr) *declared {
	switch e := e.(type) {
	case *ast.StarExpr:
		return s.named(d, e.X)
	case *ast.ArrayType:
		return s.named(d, e.Elt)
	case *ast.Ident:
		return s[d.folder][e.Name]
	case *ast.SelectorExpr:
		if from, ok := e.X.(*ast.Ident); ok {
			if folder, ok := d.imports[from.Name]; ok {
				return s[folder][e.Sel.Name]
			}
		}
	}
	return nil
}

// read reads the types of a repository.
func read(root string) (source, error) {
	all := source{}
	ids := map[string]map[string]string{} // modules' ids, by folder and type
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name := e.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "test" ||
				name == "cmd") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if all[folder] == nil {
			all[folder], ids[folder] = map[string]*declared{}, map[string]string{}
		}
		all.file(folder, file, ids[folder])
		return nil
	})
	for folder, of := range ids {
		for name, id := range of {
			if d := all[folder][name]; d != nil {
				d.module = id
			}
		}
	}
	return all, err
}

// file takes in the types of a file, and the ids of the modules that it declares.
func (s source) file(folder string, file *ast.File, ids map[string]string) {
	imports := map[string]string{}
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		if rest, ours := strings.CutPrefix(path, module+"/"); ours {
			imports[filepath.Base(rest)] = rest
		}
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					doc := t.Doc
					if doc == nil {
						doc = decl.Doc
					}
					s[folder][t.Name.Name] = &declared{folder: folder, doc: prose(doc), expr: t.Type, imports: imports}
				}
			}
		case *ast.FuncDecl:
			if decl.Name.Name != "CaddyModule" || decl.Recv == nil {
				continue
			}
			of := decl.Recv.List[0].Type
			if p, ok := of.(*ast.StarExpr); ok {
				of = p.X
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				if kv, ok := n.(*ast.KeyValueExpr); ok {
					key, isKey := kv.Key.(*ast.Ident)
					value, isValue := kv.Value.(*ast.BasicLit)
					if isKey && isValue && key.Name == "ID" {
						ids[of.(*ast.Ident).Name], _ = strconv.Unquote(value.Value)
					}
				}
				return true
			})
		}
	}
}

// tag is a field's tag, without what stands behind a comma.
func tag(f *ast.Field, key string) string {
	if f.Tag == nil {
		return ""
	}
	all, _ := strconv.Unquote(f.Tag.Value)
	name, _, _ := strings.Cut(reflect.StructTag(all).Get(key), ",")
	return name
}

// text is a comment as one line of a table. Examples, which are indented, end it.
func text(doc *ast.CommentGroup) string {
	return strings.ReplaceAll(strings.ReplaceAll(prose(doc), "|", "\\|"), "\n", " ")
}

// prose is a comment in paragraphs, each on a line, and tables. Examples, which are
// indented, end it.
func prose(doc *ast.CommentGroup) string {
	var out []string
	paragraph := false // the last line may be gone on with
	for line := range strings.Lines(doc.Text()) {
		if strings.HasPrefix(line, "\t") {
			break
		}
		line = strings.ReplaceAll(strings.Join(strings.Fields(line), " "), "<", "&lt;")
		table := strings.Contains(line, " | ") || strings.HasPrefix(line, "---")
		switch {
		case paragraph && line != "" && !table:
			out[len(out)-1] += " " + line
		default:
			out = append(out, line)
		}
		paragraph = line != "" && !table
	}
	return strings.TrimSuffix(strings.TrimSpace(strings.Join(out, "\n")), ":")
}
