// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/lab/study/optimum"
)

// Report is the result of a replay, and the optimum.
type Report struct {
	*trial.Report
	// Optima are the best possible results by profile, if requested.
	Optima []optimum.Optimum `json:"optima,omitempty"`
}

// run replays conversations, and computes their optimum unless best is nil.
func run(
	ctx context.Context, conversations []*recording.Conversation, o trial.Options, best *optimum.Options,
) (*Report, error) {
	type key struct{ profile, conversation string }
	var mu sync.Mutex
	pasts := map[key]*optimum.Hindsight{}
	if best != nil {
		o.Asked = func(a *trial.Asked) {
			k := key{a.Profile.Name, a.Conversation.Name}
			mu.Lock()
			past := pasts[k]
			if past == nil {
				past = optimum.New(a.Profile.Rules(), *best)
				pasts[k] = past
			}
			mu.Unlock()
			past.Add(a)
		}
	}
	replayed, err := trial.Run(ctx, conversations, o)
	if err != nil || best == nil {
		return &Report{Report: replayed}, err
	}
	r := &Report{Report: replayed}
	for _, profile := range o.Profiles {
		all := make([]optimum.Optimum, len(optimum.AllMoments))
		for i, m := range optimum.AllMoments {
			all[i] = optimum.Optimum{Profile: profile, Moments: m, Inputs: best.Inputs}
		}
		for _, c := range slices.SortedFunc(slices.Values(conversations),
			func(a, b *recording.Conversation) int { return cmp.Compare(a.Name, b.Name) }) {
			past := pasts[key{profile, c.Name}]
			if past == nil {
				continue // it has no requests
			}
			for i, of := range past.Solve() {
				of.Conversation = c.Name
				all[i].Add(of)
			}
		}
		r.Optima = append(r.Optima, all...)
	}
	return r, nil
}

// WriteText writes the report as tables.
func (r *Report) WriteText(w io.Writer) error {
	if err := r.Report.WriteText(w); err != nil || r.Optima == nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\nprofile\toptimum, folding at\tcost\tworst\t")
	for i := range r.Optima {
		o := &r.Optima[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t\n", o.Profile, o.Moments, figure.Change(o.CostRatio()), figure.Change(o.Worst()))
	}
	return t.Flush()
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
