// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

// Jsonsuite holds the cases of JSONTestSuite, for tests.

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

// cases are the files of test_parsing in https://github.com/nst/JSONTestSuite
// (1ef36fa), a name and a content a line, both quoted as in Go. See LICENSE.
//
//go:embed cases.txt
var cases string

// JSONCase is a text that a parser of JSON is tried with.
type JSONCase struct {
	// Name begins with y_ for texts that are JSON, with n_ for those that are
	// not, and with i_ for those that a parser may take or leave.
	Name, Text string
}

// JSONCases returns all cases, the two longest of which are made here.
func JSONCases() ([]JSONCase, error) {
	out := []JSONCase{
		{"n_structure_100000_opening_arrays", strings.Repeat("[", 100_000)},
		{"n_structure_open_array_object", strings.Repeat(`[{"":`, 50_000) + "\n"},
	}
	for line := range strings.Lines(cases) {
		var c JSONCase
		for _, to := range []*string{&c.Name, &c.Text} {
			quoted, err := strconv.QuotedPrefix(line)
			if err == nil {
				*to, err = strconv.Unquote(quoted)
			}
			if err != nil {
				return nil, fmt.Errorf("reading %q: %w", line, err)
			}
			line = strings.TrimPrefix(line[len(quoted):], " ")
		}
		out = append(out, c)
	}
	return out, nil
}
