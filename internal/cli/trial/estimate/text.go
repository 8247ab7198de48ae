// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package estimate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
)

const all = "total"

const shownProjects = 20

// shownModels bounds the listed models without a price.
const shownModels = 5

// WriteJSON writes the estimate as JSON.
func (e *Estimate) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(e)
}

// WriteText writes the estimate as tables.
func (e *Estimate) WriteText(w io.Writer) error {
	t := &e.Total
	begun := ""
	if !e.Since.IsZero() {
		begun = e.Since.Format(", begun from 2006-01-02") + e.Until.Format(" to 2006-01-02")
	}
	fmt.Fprintf(w, "%d conversations with %d requests%s, %.0f MB\n", t.Conversations, t.Requests, begun,
		float64(e.Bytes)/1e6)
	if t.Drawn < t.Conversations {
		fmt.Fprintf(w,
			"Simulated: %d of them with %d requests, drawn by a hash of their ids; the rest is in proportion (--requests 0 "+
				"simulates all).\n", t.Drawn, t.Simulated.Calls)
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	columns := "conversations\trequests\tprompts\tpaid\tsaved\tcost\tharm\tsimulated\t"
	fmt.Fprintln(table, "project\tagent\t"+columns)
	for i, g := range e.Projects {
		if i == shownProjects {
			fmt.Fprintf(table, "(%d more)\t\t\t\t\t\t\t\t\t\t\n", len(e.Projects)-shownProjects)
			break
		}
		g.row(table)
	}
	sum := *t
	sum.Project = all
	sum.row(table)
	fmt.Fprintln(table, "\t\t\t\t\t\t\t\t\t\t")
	for _, g := range e.Lengths {
		if g.Conversations > 0 {
			g.row(table)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if e.Interval != nil {
		fmt.Fprintf(w, "\nCost in all: %s (95 %%: %s), if your next conversations are like these.",
			figure.Change(t.Simulated.CostRatio()), e.Interval)
	}
	if t.Drawn > 0 {
		fmt.Fprintf(w, "\nThe conversation in the middle: %s; the one that fares worst: %s.\n", figure.Change(e.Median),
			figure.Change(e.Worst))
	}
	for _, note := range e.notes() {
		fmt.Fprintln(w, note)
	}
	_, err := fmt.Fprint(w, `
Paid: what the transcripts say was billed for prompts, at list prices; – where none
is known. On a subscription the same share is what limits last longer by.
Cost: of the simulated prompts, against the client's own bytes.
Harm: file edits that quote text which the model had not been shown, of all such.
`)
	return err
}

func (e *Estimate) notes() []string {
	var out []string
	if len(e.Unpriced) > 0 {
		names := make([]string, 0, shownModels+1)
		for i, u := range e.Unpriced {
			if i == shownModels {
				names = append(names, fmt.Sprintf("%d more", len(e.Unpriced)-i))
				break
			}
			names = append(names, fmt.Sprintf("%s (%s)", cmp.Or(u.Model, "a model without a name"),
				figure.Tokens(float64(u.Tokens))))
		}
		out = append(out,
			fmt.Sprintf("No price is known of %s: their prompts are in no sum of dollars. Those of hosted models can be "+
				"given in a file: --prices.", strings.Join(names, ", ")))
	}
	if e.Unreadable > 0 {
		out = append(out, fmt.Sprintf("%d transcripts could not be read.", e.Unreadable))
	}
	if e.UnknownLines > 0 {
		out = append(out, fmt.Sprintf("%d lines of a kind that is not known, or cut off, were passed over.", e.UnknownLines))
	}
	if e.Failed > 0 {
		out = append(out, fmt.Sprintf("%d conversations could not be simulated, the first: %s", e.Failed, e.Failure))
	}
	return out
}

func (g *Group) row(w io.Writer) {
	cost, harm := "–", "–"
	if g.Drawn > 0 {
		cost, harm = figure.Change(g.Simulated.CostRatio()), fmt.Sprintf("%d/%d", g.Simulated.Harmed, g.Simulated.Edits)
	}
	paid, saved := "–", "–"
	if g.Paid > 0 {
		paid, saved = figure.Dollars(g.Paid), figure.Dollars(g.Saved)
	}
	if g.Agent == "" && g.Project != all { // a group by length
		saved = ""
	}
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%d\t\n", g.name(), g.Agent, g.Conversations, g.Requests,
		figure.Tokens(float64(g.Tokens)), paid, saved, cost, harm, g.Drawn)
}
