// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/lab/study/optimum"
)

// Frontier is the result of one policy at several tolerances of harm, with other policies for
// comparison.
type Frontier struct {
	// Points are the results, by profile and then by rising tolerance.
	Points []FrontierPoint `json:"points"`
	// References are the policies eager and off, by profile.
	References []FrontierPoint `json:"references"`
	// Optima are the best possible results by profile, if requested.
	Optima []optimum.Optimum `json:"optima,omitempty"`
}

// FrontierPoint is the result of one run over all conversations.
type FrontierPoint struct {
	// Risk is the tolerance, 0 in references.
	Risk float64 `json:"risk"`
	trial.Combination
}

// sweep replays conversations under the first policy once for each tolerance of harm, which
// overrides the handler's options, and once under eager and off.
func sweep(
	ctx context.Context, conversations []*recording.Conversation, o trial.Options, best *optimum.Options, risks []float64,
) (*Frontier, error) {
	policy := o.Policies[:1]
	o.Policies = []pipeline.Policy{pipeline.Eager, pipeline.Off}
	report, err := run(ctx, conversations, o, best)
	if err != nil {
		return nil, err
	}
	f := &Frontier{Optima: report.Optima}
	for i := range report.Runs {
		f.References = append(f.References, FrontierPoint{Combination: report.Runs[i]})
	}
	o.Policies = policy
	runs := make([]*trial.Report, len(risks))
	handler := o.Handler
	for i, risk := range risks {
		if o.Handler, err = withRisk(handler, risk); err != nil {
			return nil, err
		}
		if runs[i], err = trial.Run(ctx, conversations, o); err != nil {
			return nil, err
		}
	}
	for p := range o.Profiles {
		for i, risk := range risks {
			f.Points = append(f.Points, FrontierPoint{risk, runs[i].Runs[p]})
		}
	}
	return f, nil
}

// withRisk sets the planner's tolerance of harm in the options of the handler.
func withRisk(handler []byte, risk float64) ([]byte, error) {
	options := map[string]json.RawMessage{}
	if len(handler) > 0 {
		if err := json.Unmarshal(handler, &options); err != nil {
			return nil, fmt.Errorf("options of the handler: %w", err)
		}
	}
	planner := map[string]json.RawMessage{}
	if old := options["planner"]; old != nil {
		if err := json.Unmarshal(old, &planner); err != nil {
			return nil, fmt.Errorf("options of the handler: planner: %w", err)
		}
	}
	planner["risk"] = json.RawMessage(strconv.FormatFloat(risk, 'g', -1, 64))
	merged, err := json.Marshal(planner)
	if err != nil {
		return nil, fmt.Errorf("options of the handler: planner: %w", err)
	}
	options["planner"] = merged
	if merged, err = json.Marshal(options); err != nil {
		return nil, fmt.Errorf("options of the handler: %w", err)
	}
	return merged, nil
}

// Violations lists the violations of all results, one line each.
func (f *Frontier) Violations() []string {
	var r trial.Report
	for _, points := range [...][]FrontierPoint{f.Points, f.References} {
		for i := range points {
			r.Runs = append(r.Runs, points[i].Combination)
		}
	}
	return r.Violations()
}

// WriteJSON writes the frontier as JSON.
func (f *Frontier) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(f)
}

// WriteText writes the frontier as a table.
func (f *Frontier) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "profile\tpolicy\trisk\tcost\tworst\tharm\trejected\tfail-open\t")
	row := func(p *FrontierPoint, risk string) {
		c := &p.Total
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.2f %%\t%d\t%d\t\n", c.Profile, c.Policy, risk,
			figure.Change(c.CostRatio()), figure.Change(p.WorstRatio), 100*c.Harm(), c.Rejected, c.FailedOpen)
	}
	for i := range f.Points {
		row(&f.Points[i], strconv.FormatFloat(f.Points[i].Risk, 'g', -1, 64))
	}
	for i := range f.References {
		row(&f.References[i], "")
	}
	for i := range f.Optima {
		o := &f.Optima[i]
		fmt.Fprintf(t, "%s\toptimum: %s\t\t%s\t%s\t%.2f %%\t\t\t\n", o.Profile, o.Moments, figure.Change(o.CostRatio()),
			figure.Change(o.Worst()), 0.0)
	}
	return t.Flush()
}
