// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// countPassing replaces long runs of lines about passing tests by the first, the last and their
// number.
func countPassing(s string) string {
	return collapse(s, 8, 1, 1, passing, func(n int) string {
		return fmt.Sprintf("%s%d lines of passing tests left out]",
			Note, n)
	})
}

// passed holds the beginnings of lines about tests that start or have passed.
var passed = byFirst(
	"ok \t", "ok  \t", "=== RUN", "=== PAUSE", "=== CONT", "=== NAME", "--- PASS:", // go test
	"✓ ", "✔ ", "√ ", "PASS ", // jest, vitest, mocha, node
	"[ RUN      ]", "[       OK ]", // googletest
)

// passing returns 1 for a line that only reports the start or success of a test.
func passing(line string) uint64 {
	line = trimBlanks(untag(line))
	if len(line) < 4 || len(line) > 500 || strings.HasSuffix(line, "statements") && strings.Contains(line, "coverage:") {
		return 0
	}
	for _, prefix := range passed[line[0]] {
		if strings.HasPrefix(line, prefix) {
			return 1
		}
	}
	switch {
	// cargo, unittest; pytest, gradle; go test
	case strings.HasSuffix(line, " ... ok"), strings.HasSuffix(line, " PASSED"),
		strings.HasSuffix(line, "[no test files]"):
		return 1
	// pytest -v, -n
	case strings.Contains(line, " PASSED ") && (strings.Contains(line, "::") || strings.HasSuffix(line, "%]")):
		return 1
	case strings.HasPrefix(line, "ok ") && len(line) > 5 && content.Digits(line[3:4]): // TAP
		return 1
	case strings.Contains(line, "   Passed  ") && strings.HasSuffix(line, " sec"): // ctest
		return 1
	}
	return 0
}

// countProgress replaces runs of progress lines by the first, the last and their number.
func countProgress(s string) string {
	note := func(n int) string { return fmt.Sprintf("%s%d lines of progress left out]", Note, n) }
	s = collapse(s, 6, 1, 1, progress, note)
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	return advance(s, note)
}

// advancing holds the beginnings of progress lines of package managers, compilers and transfers,
// one item per line.
var advancing = byFirst(
	"go: downloading ", "go: finding ", "go: extracting ",
	"Collecting ", "Downloading ", "Using cached ", "Requirement already satisfied: ", "Obtaining dependency information ",
	"Installing build dependencies", "Getting requirements to build ", "Preparing metadata ", "Building wheel",
	"Created wheel ", "Stored in directory: ",
	"Attempting uninstall: ", "Found existing installation: ", "Uninstalling ", "Successfully uninstalled ",
	"npm http ", "npm sill ", "npm timing ", "npm verb ", "Progress: resolved ", "➤ YN0013", "➤ YN0019",
	"Compiling ", "Downloaded ", "Checking ", "Fresh ", "Fetching ", "Installing ", "Using ", "Unpacking ", "Unlocking ",
	"Adding ", "Locking ",
	"Get:", "Hit:", "Ign:", "Selecting previously unselected package ", "Preparing to unpack ", "Setting up ",
	"Processing triggers for ",
	"[INFO] Downloading from ", "[INFO] Downloaded from ", "Downloading from ", "Downloaded from ", "Download http",
	"Progress (",
	"<s> [webpack.Progress] ", "- Downloading ", "- Installing ", "==> Downloading ", "==> Fetching ", "==> Pouring ",
)

// layers are the states of a container image's layer.
var layers = []string{
	"Pulling fs layer", "Waiting", "Downloading", "Verifying Checksum", "Download complete", "Extracting", "Pull complete",
	"Already exists",
	"Preparing", "Pushing", "Pushed", "Layer already exists", "Mounted from",
}

// progress returns 1 for a line about the progress of one of many items, without an error.
func progress(line string) uint64 {
	line = trimBlanks(untag(line))
	if len(line) < 4 || len(line) > 500 {
		return 0
	}
	if len(line) > 14 && line[12] == ':' && hexadecimal(line[:12]) {
		state := line[14:]
		for _, l := range layers {
			if strings.HasPrefix(state, l) {
				return 1
			}
		}
		return 0
	}
	for _, prefix := range advancing[line[0]] {
		if strings.HasPrefix(line, prefix) {
			if alarming(line) && !strings.HasPrefix(line, "Compiling ") && !strings.HasPrefix(line, "Requirement ") &&
				!strings.HasPrefix(line, "go: ") {
				return 0
			}
			return 1
		}
	}
	return 0
}

// advance shortens runs of lines with a growing percentage that differ only in numbers.
func advance(s string, note func(n int) string) string {
	run, last, high := uint64(0), uint64(0), -1
	return collapse(s, 5, 1, 1, func(line string) uint64 {
		value, form := percentage(line)
		if value < 0 {
			last, high = 0, -1
			return 0
		}
		if form != last || value < high {
			run++ // a new run
		}
		last, high = form, value
		return run
	}, note)
}

// percentage returns the first percentage in a line, -1 if there is none, and a hash of the line's
// letters.
func percentage(line string) (value int, form uint64) {
	at := strings.IndexByte(line, '%')
	if at < 1 || len(line) > 500 {
		return -1, 0
	}
	from := at
	for from > 0 && content.Digits(line[from-1:from]) {
		from--
	}
	if from == at || at-from > 3 {
		return -1, 0
	}
	for _, c := range line[from:at] {
		value = 10*value + int(c-'0')
	}
	// Letters only: numbers and progress bars differ between the lines of a run.
	h := uint64(14695981039346656037)
	for i := range len(line) {
		if c := line[i]; c|0x20 >= 'a' && c|0x20 <= 'z' {
			h = (h ^ uint64(c)) * 1099511628211
		}
	}
	return value, h | 1
}

// untag removes the tag that runners of several commands put before lines: a name in brackets, or a
// name before a bar.
func untag(line string) string {
	if strings.HasPrefix(line, "[") && !strings.HasPrefix(line, "[ ") && !strings.HasPrefix(line, "[INFO]") {
		if tag, rest, ok := strings.Cut(line, "] "); ok && len(tag) <= 40 {
			return rest
		}
	}
	if i := strings.IndexByte(line[:min(len(line), 44)], '|'); i > 1 && line[i-1] == ' ' &&
		strings.HasPrefix(line[i+1:], " ") &&
		strings.IndexByte(strings.TrimRight(line[:i], " "), ' ') < 0 {
		return line[i+2:]
	}
	return line
}

// trimBlanks removes blanks and tabs at both ends.
func trimBlanks(s string) string {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

func hexadecimal(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != ""
}
