// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package option

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxListed bounds the options that are listed if none is similar.
const maxListed = 16

// syntax is the listing of all options, see [SetSyntax].
var syntax string

// SetSyntax sets the listing of all options as docs/reference/caddyfile.md has it, each block
// indented deeper than its name. Errors about misplaced options name the right block by it. It must
// be called from an init function.
func SetSyntax(listing string) { syntax = listing }

// suggestion names the blocks that have an option, or else the most similar known option, and lists
// the known options if they are few and none is similar.
func suggestion(written, of string, known Options) (text string) {
	names, blocks := slices.Sorted(maps.Keys(known)), blocksWith(written, of)
	if near := Nearest(written, names); near != "" && len(blocks) == 0 {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if len(names) > 0 && len(names) <= maxListed {
		text = ", which has " + listed(known)
	}
	if len(blocks) > 0 {
		text += "; it belongs in " + strings.Join(blocks, ", or in ")
	}
	return text
}

func listed(known Options) string { return strings.Join(slices.Sorted(maps.Keys(known)), ", ") }

// blocksWith returns the blocks of the syntax that have an option, except those that stand for
// several alternatives, of which the block that lacks it is one.
func blocksWith(written, of string) (blocks []string) {
	type open struct {
		indent int
		name   string
	}
	var path []open
	for line := range strings.Lines(syntax) {
		code, _, _ := strings.Cut(line, "#")
		fields := strings.Fields(code)
		indent := len(code) - len(strings.TrimLeft(code, " "))
		if len(fields) == 0 || indent < 4 { // a comment or prose
			continue
		}
		for len(path) > 0 && path[len(path)-1].indent >= indent {
			path = path[:len(path)-1]
		}
		if len(path) > 0 && slices.Contains(strings.Split(fields[0], "|"), written) {
			block := path[len(path)-1].name
			kind, rest, _ := strings.Cut(block, " ")
			alternative := strings.HasPrefix(of, kind+" ") && (rest == "" || strings.Contains(rest, "|"))
			if path[0].name == "" {
				block += " in the global options"
			} else if len(path) == 1 || block == of {
				block += " in the site"
			}
			if !alternative && !slices.Contains(blocks, block) {
				blocks = append(blocks, block)
			}
		}
		if fields[len(fields)-1] == "{" {
			path = append(path, open{indent, blockName(fields)})
		}
	}
	return blocks
}

// blockName returns the words of a block's first line up to its arguments, "" of the global options.
func blockName(fields []string) string {
	for i, f := range fields {
		if strings.ContainsAny(f[:1], "[<{") {
			return strings.Join(fields[:i], " ")
		}
	}
	return strings.Join(fields, " ")
}

// Nearest returns the most similar name, "" if none is similar enough.
func Nearest(written string, names []string) string {
	// Tolerate one mistake, and another one for every three letters.
	best, nearest := "", 1+len(written)/3
	for _, name := range names {
		if d := distance(written, name); d <= nearest && (best == "" || d < distance(written, best)) {
			best = name
		}
	}
	return best
}

// distance is the Levenshtein distance of two words, in bytes.
func distance(a, b string) int {
	// One row of the distance matrix at a time.
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
