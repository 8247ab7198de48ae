// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
)

// WriteHTML writes the summary as the page with its data, which loads nothing.
func (s *Summary) WriteHTML(w io.Writer) error {
	p := s.Period
	by := audit.Breakdown{Key: s.By}
	for _, g := range s.Groups {
		by.Sums = append(by.Sums, g.Sum)
	}
	// The chosen groups come first.
	p.Dimensions = slices.Insert(slices.DeleteFunc(slices.Clone(p.Dimensions), func(b audit.Breakdown) bool {
		return b.Key == by.Key
	}), 0, by)
	if err := page.WriteReport(w, &p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
