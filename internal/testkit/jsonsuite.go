// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

// The cases of JSONTestSuite.

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

// cases are the files of test_parsing in https://github.com/nst/JSONTestSuite (1ef36fa): one name
// and content per line, both quoted as in Go. See LICENSE.
//
//go:embed cases.txt
var cases string

// JSONCase is an input for a JSON parser.
type JSONCase struct {
	// Name begins with y_ for valid JSON, with n_ for invalid JSON, and with i_ for texts that a
	// parser may accept or reject.
	Name, Text string
}

// JSONCases returns all cases.
func JSONCases() ([]JSONCase, error) {
	// The two longest cases are generated.
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
