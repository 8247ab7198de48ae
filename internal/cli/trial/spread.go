// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
)

const short = 100

// dearer is the cost ratio above which a conversation counts as a loss.
const dearer = 1.0001

func (r *Combination) writeSpread(w io.Writer) error {
	groups := map[string][]*Result{}
	all := make([]*Result, 0, len(r.Conversations))
	var few, many []*Result
	for i := range r.Conversations {
		c := &r.Conversations[i]
		all = append(all, c)
		if groups[c.Agent] = append(groups[c.Agent], c); c.Calls <= short {
			few = append(few, c)
		} else {
			many = append(many, c)
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tconversations\tcost\tmean\tmedian\tworst\tdearer\tharm\t\t")
	writeGroup(t, "all", all)
	writeGroup(t, fmt.Sprintf("up to %d requests", short), few)
	writeGroup(t, "longer", many)
	for _, agent := range slices.Sorted(maps.Keys(groups)) {
		writeGroup(t, agent, groups[agent])
	}
	return t.Flush()
}

func writeGroup(w io.Writer, name string, group []*Result) {
	if len(group) == 0 {
		return
	}
	var total Result
	ratios := make([]float64, len(group))
	sum, lost := 0.0, 0
	for i, c := range group {
		total.Add(c)
		ratios[i] = c.CostRatio()
		if sum += ratios[i]; ratios[i] > dearer {
			lost++
		}
	}
	slices.Sort(ratios)
	n := len(ratios)
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%.1f %%\t%.2f %%\t%d/%d\t\n", name, n, figure.Change(total.CostRatio()),
		figure.Change(sum/float64(n)),
		figure.Change((ratios[(n-1)/2]+ratios[n/2])/2), figure.Change(ratios[n-1]), 100*float64(lost)/float64(n),
		100*total.Harm(), total.Harmed, total.Edits)
}
