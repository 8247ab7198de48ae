// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestValuesAreDocumented: each value of an outcome stands in docs/reference/signals.md under each of
// its names, headers with their placeholders, and the page has no others.
func TestValuesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/signals.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`[^`\n]+`")
	names := map[string]bool{} // in the page
	var whole string           // the last name in full
	for _, name := range quoted.FindAllString(string(page), -1) {
		name = strings.Trim(name, "`")
		if names[name] = true; !strings.HasPrefix(name, ".") {
			whole = name
			continue
		}
		// `.output_tokens` behind `gen_ai.usage.input_tokens`
		for i := range whole {
			if whole[i] == '.' {
				names[whole[:i]+name] = true
			}
		}
	}
	placeholders := map[string]string{} // by header, in the page
	row := regexp.MustCompile("(?m)^\\| `(X-Llm-Cache-[^`]+)` \\| `\\{http\\.llm_cache\\.([^`]+)\\}` \\|")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		placeholders[m[1]] = m[2]
	}
	source, err := os.ReadFile("handler.go") // its comment is the documentation at Caddy
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile(`(?m)^    X-Llm-Cache: .*$`).FindString(string(page))
	for _, v := range values {
		for _, name := range []string{v.header, v.log, string(v.span)} {
			if name != "" && !names[name] {
				t.Errorf("signals.md lacks `%s`", name)
			}
		}
		if v.parameter != "" && !strings.Contains(example, "; "+v.parameter+"=") && !names[v.parameter] {
			t.Errorf("signals.md lacks the parameter `%s` of %s", v.parameter, headerBrief)
		}
		if v.header == "" && v.placeholder != "" {
			t.Errorf("the placeholder %s has no header", v.placeholder)
		}
		if got, want := placeholders[v.header], v.placeholder; v.header != "" && got != want {
			t.Errorf("signals.md has the placeholder %q for %s, want %q", got, v.header, want)
		}
		if v.placeholder != "" && !strings.Contains(string(source), "// `{http.llm_cache."+v.placeholder+"}` |") {
			t.Errorf("handler.go lacks the placeholder %s in its comment", v.placeholder)
		}
		delete(placeholders, v.header)
	}
	for header := range placeholders {
		t.Errorf("signals.md has %s with a placeholder, which is no value", header)
	}
}
