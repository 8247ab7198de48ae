// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/subscription"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
)

//go:embed page.html
var page string

// WriteHTML writes the summary as a page with charts, without scripts and without anything from elsewhere.
func (s *Summary) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"percent": figure.Percent,
		"prompt":  func(g *Sum) string { return figure.Tokens(float64(g.Billed.Prompt())) },
		"actual":  func(g *Sum) string { return money(g, g.Actual()) },
		"own":     func(g *Sum) string { return money(g, g.Unedited()) },
		"saved":   func(g *Sum) string { return money(g, g.Saved()) },
		"would": func(g *Sum) string {
			if !g.Observed() {
				return "–"
			}
			return money(g, g.Would())
		},
		"observed": func() bool { return s.Total.Observed() },
		"ms":       milliseconds,
		"none":     s.unpriced,
		"assumed":  s.assumed,
		"groups": func() (sums []*Sum) {
			for _, g := range s.Groups[:min(len(s.Groups), shown)] {
				sums = append(sums, g.Sum)
			}
			return sums
		},
		"charts":  s.charts,
		"windows": func() []subscription.State { return s.Windows[:min(len(s.Windows), shown)] },
		"window":  func(w subscription.State) string { return w.Text(w.At) },
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := t.Execute(w, s); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func milliseconds(ms float64) string {
	switch {
	case ms >= 1000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case ms >= 10:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.2f ms", ms)
}

type chart struct {
	Title, Note string
	SVG         template.HTML
}

func (s *Summary) charts() []chart {
	unit := "US dollars"
	if !s.Total.Priced() {
		unit = "uncached input tokens"
	}
	charts := []chart{
		{
			Title: "Cost by day", Note: "In " + unit + ": as billed, beside what the clients' own bytes would have cost.",
			SVG: inWidths(s.costs),
		},
		{
			Title: "Share of prompts read from a cache, by day",
			Note:  "As billed, and what it would have been for the clients' own bytes.", SVG: inWidths(s.reads),
		},
	}
	for _, c := range []struct {
		title, note string
		parts       []Part
		count       bool
	}{
		{
			"Saving by stage",
			"In " + unit +
				", net. The saving of each turn is shared among its stages by the tokens that their edits take out of it, in " +
				"that turn or earlier: each edit counts for as long as it stays.", s.Stages, false,
		},
		{
			"Saving by epoch",
			"In " + unit +
				", net: what conversations saved from their first fold on, the turn that paid for it included, by the moment at " +
				"which they were folded.", s.Epochs, false,
		},
		{"Cache breaks by cause", "Turns whose cache did not hold what it was expected to.", s.Breaks, true},
	} {
		if len(c.parts) > 0 {
			charts = append(charts, chart{c.title, c.note, inWidths(func(class string, wide float64) *drawing {
				return s.bars(c.title, c.parts, c.count, class, wide)
			})})
		}
	}
	return charts
}
