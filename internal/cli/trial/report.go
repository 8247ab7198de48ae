// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// Report is the result of a replay.
type Report struct {
	// Runs are the combinations of profile and policy, in the requested order.
	Runs []Combination `json:"runs"`
}

// Combination is one profile under one policy.
type Combination struct {
	// Total is the sum of all conversations.
	Total Result `json:"total"`
	// Worst is the name of the conversation with the highest cost ratio, and WorstRatio that ratio.
	Worst string `json:"worst"`
	// WorstRatio: see Worst.
	WorstRatio float64 `json:"worst_ratio"`
	// Conversations are the single results, sorted by name.
	Conversations []Result `json:"conversations"`
}

func newReport(drives []*drive, profiles []pricing.Profile, policies []pipeline.Policy) *Report {
	report := &Report{}
	for _, p := range profiles {
		for i, policy := range policies {
			run := Combination{Total: Result{Conversation: "total", Profile: p.Name, Policy: policy}}
			for _, d := range drives {
				if d.profile.Name == p.Name {
					run.add(d.results[i])
				}
			}
			slices.SortFunc(run.Conversations, func(a, b Result) int { return cmp.Compare(a.Conversation, b.Conversation) })
			report.Runs = append(report.Runs, run)
		}
	}
	return report
}

func (r *Combination) add(one Result) {
	r.Total.Add(&one)
	r.Conversations = append(r.Conversations, one)
	if c := one.CostRatio(); r.Worst == "" || c > r.WorstRatio {
		r.Worst, r.WorstRatio = one.Conversation, c
	}
}

// Violations lists the violations of all conversations, one line each.
func (r *Report) Violations() []string {
	var out []string
	for i := range r.Runs {
		for j := range r.Runs[i].Conversations {
			c := &r.Runs[i].Conversations[j]
			for _, v := range c.Violations() {
				out = append(out, fmt.Sprintf("%s, %s, %s: %s", c.Profile, c.Policy, c.Conversation, v))
			}
		}
	}
	return out
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report as tables: the conversations of each run, and a summary of all runs
// at the end.
func (r *Report) WriteText(w io.Writer) error {
	for i := range r.Runs {
		if err := r.Runs[i].writeText(w); err != nil {
			return err
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "profile\tpolicy\tcost\ttokens\tworst\tharm\tedits\tchanged\trejected\tfail-open\tresent\t")
	for i := range r.Runs {
		run := &r.Runs[i]
		c := &run.Total
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.1f %%\t%d\t%d\t%d\t%d\t%d\t\n", c.Profile, c.Policy,
			figure.Change(c.CostRatio()), figure.Change(c.TokenRatio()), figure.Change(run.WorstRatio),
			100*c.Harm(), c.Edits, c.Changed, c.Rejected, c.FailedOpen, c.Resent)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.writeVerdict(w)
}

func (r *Report) writeVerdict(w io.Writer) error {
	verdict := "\nNo request was refused or given up on.\n"
	for i := range r.Runs {
		if p := r.Runs[i].Total.Policy; p == pipeline.Off || p == pipeline.Observe {
			verdict = "\nNo request was refused or given up on; off and observe left every byte as it was.\n"
		}
	}
	if v := r.Violations(); len(v) > 0 {
		verdict = "\nFAILED:\n  " + strings.Join(v, "\n  ") + "\n"
	}
	_, err := io.WriteString(w, verdict)
	return err
}

func (r *Combination) writeText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s, %s\n", r.Total.Profile, r.Total.Policy)
	fmt.Fprintln(t,
		"conversation\tcalls\tbase\tcost\t\ttokens\tuncached\twritten\tread\tlongest\tharm\tchanged\trejected\tfail-open\tresent\t")
	for i := range r.Conversations {
		r.Conversations[i].writeRow(t)
	}
	r.Total.writeRow(t)
	if err := t.Flush(); err != nil {
		return err
	}
	var notes strings.Builder
	fmt.Fprintf(&notes, "worst: %s %s\n", r.Worst, figure.Change(r.WorstRatio))
	r.writePings(&notes)
	if r.Total.Expanded > 0 {
		fmt.Fprintf(&notes, "the model asked for folded text %d times\n", r.Total.Expanded)
	}
	r.writeWords(&notes)
	if len(r.Total.Fired) > 0 {
		notes.WriteString("stages:")
		for _, name := range slices.Sorted(maps.Keys(r.Total.Fired)) {
			fmt.Fprintf(&notes, " %s %d", name, r.Total.Fired[name])
		}
		notes.WriteString("\n")
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Total.Refusals)) {
		fmt.Fprintf(&notes, "refused %d times: %s\n", r.Total.Refusals[reason], reason)
	}
	if r.Total.BaseRejected > 0 {
		fmt.Fprintf(&notes, "of the client's own bytes %d requests are refused\n", r.Total.BaseRejected)
	}
	if _, err := io.WriteString(w, notes.String()); err != nil {
		return err
	}
	if err := r.writeBackground(w); err != nil {
		return err
	}
	if err := r.writeSpread(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (r *Result) writeRow(w io.Writer) {
	b, s := r.Base, r.Sent
	// Buckets that differ are written as before→after.
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d/%d\t%d\t%d\t%d\t%d\t\n",
		r.Conversation, r.Calls, thousands(int64(r.BaseCost)), thousands(int64(r.Cost)), figure.Change(r.CostRatio()),
		figure.Change(r.TokenRatio()),
		pair(b.Uncached, s.Uncached), pair(b.Write5m+b.Write1h, s.Write5m+s.Write1h), pair(b.Read, s.Read),
		pair(r.BaseMaxPrompt, r.MaxPrompt), r.Harmed, r.Edits, r.Changed, r.Rejected, r.FailedOpen, r.Resent)
}

func pair(before, after int64) string {
	if before == after {
		return thousands(before)
	}
	return thousands(before) + "→" + thousands(after)
}

func thousands(n int64) string { return fmt.Sprintf("%.1fk", float64(n)/1000) }
