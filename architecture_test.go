// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package llmcache

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	codeBlock = regexp.MustCompile("(?s)```go\n(.*?)```")
	pathName  = regexp.MustCompile(`\b[a-z_0-9]+(?:/[a-z_0-9]+)*(?:\.go\b|/)|\b[a-z_0-9]+(?:/[a-z_0-9]+)+\b`)
	codeName  = regexp.MustCompile(`\b([a-z]+)\.([A-Z][A-Za-z]+)\b`)
	testName  = regexp.MustCompile("`(Test[A-Z][A-Za-z]+)`")
)

// TestArchitectureNames: files, folders, tests and exported names in docs/design/architecture.md exist.
func TestArchitectureNames(t *testing.T) {
	page, err := os.ReadFile("docs/design/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	prose := codeBlock.ReplaceAllString(text, "")
	var sources []string
	err = filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			sources = append(sources, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := pathName.FindAllString(prose, -1)
	for _, name := range names {
		if !exists(name, sources) {
			t.Errorf("there is no %s", name)
		}
	}
	if len(names) == 0 {
		t.Error("no names were found")
	}
	for _, m := range testName.FindAllStringSubmatch(prose, -1) {
		if !declared(t, sources, "", m[1]) {
			t.Errorf("there is no test %s", m[1])
		}
	}
	for _, m := range codeName.FindAllStringSubmatch(prose, -1) {
		if !declared(t, sources, m[1], m[2]) {
			t.Errorf("there is no %s", m[0])
		}
	}
}

// exists reports whether a path exists. A file or package named without its folder may be in any
// folder.
func exists(name string, sources []string) bool {
	name = strings.TrimSuffix(name, "/")
	if _, err := os.Stat(name); err == nil {
		return true
	}
	return slices.ContainsFunc(sources, func(path string) bool {
		return strings.HasSuffix(path, "/"+name) || strings.Contains(path, "/"+name+"/")
	})
}

// declared reports whether a package, or any if pkg is empty, declares a function, type, variable
// or method.
func declared(t *testing.T, sources []string, pkg, name string) bool {
	t.Helper()
	declares := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type |var |const |\t)` + name + `\b`)
	for _, path := range sources {
		if pkg != "" && filepath.Base(filepath.Dir(path)) != pkg {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if declares.Match(source) {
			return true
		}
	}
	return false
}
