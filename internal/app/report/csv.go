// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"io"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// WriteCSV writes a line for each group, below a line with the names of the columns.
func (s *Summary) WriteCSV(w io.Writer) error {
	keys := strings.Split(s.By, ",")
	return audit.WriteCSV(w, keys, func(yield func([]string, *Sum) bool) {
		values := make([]string, len(keys))
		for _, g := range s.Groups {
			for i, key := range keys {
				values[i] = g.Keys[key]
			}
			if !yield(values, g.Sum) {
				return
			}
		}
	})
}
