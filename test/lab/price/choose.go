// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// dearer is the cost ratio above which a conversation counts as a loss.
const dearer = 1.0001

// sum adds up outcomes.
type sum struct {
	base, cost    float64
	edits, harmed int
	ratios        []float64
}

func (s *sum) add(o *outcome) {
	s.base += o.BaseCost
	s.cost += o.Cost
	s.edits += o.Edits
	s.harmed += o.Harmed
	ratio := 1.0
	if o.BaseCost > 0 {
		ratio = o.Cost / o.BaseCost
	}
	s.ratios = append(s.ratios, ratio)
}

func (s *sum) harm() float64 { return float64(s.harmed) / max(1, float64(s.edits)) }

func (s *sum) write(w io.Writer, name string) {
	slices.Sort(s.ratios)
	n, lost := len(s.ratios), 0
	for _, r := range s.ratios {
		if r > dearer {
			lost++
		}
	}
	percent := func(ratio float64) float64 { return 100 * (ratio - 1) }
	fmt.Fprintf(w, "| %s | %d | %+.1f %% | %+.1f %% | %+.1f %% | %.1f %% | %.2f %% | %d of %d |\n", name, n,
		percent(s.cost/s.base),
		percent((s.ratios[(n-1)/2]+s.ratios[n/2])/2), percent(s.ratios[n-1]), 100*float64(lost)/float64(n), 100*s.harm(),
		s.harmed, s.edits)
}

// report prints the results of each price, and the cross-validated results of the choice.
func report(w io.Writer, tried []*result, fold map[string]int, bound float64) {
	slices.SortFunc(tried, func(a, b *result) int { return int(a.Harm.Price - b.Harm.Price) })
	fmt.Fprintf(w,
		"\n%s\n\n| price | conversations | cost | median | worst | dearer | harm | edits "+
			"|\n|---|--:|--:|--:|--:|--:|--:|--:|\n", tried[0].Profile)
	for _, r := range tried {
		r.write(w)
	}
	var nested sum
	folds := 0
	for _, k := range fold {
		folds = max(folds, k+1)
	}
	for k := range folds {
		r := choose(tried, func(o *outcome) bool { return fold[o.Owner] != k }, bound)
		for i := range r.Conversations {
			if o := &r.Conversations[i]; fold[o.Owner] == k {
				nested.add(o)
			}
		}
	}
	nested.write(w, "chosen on the other folds")
	all := choose(tried, func(*outcome) bool { return true }, bound)
	fmt.Fprintf(w, "\nchosen on all: %g\n", all.Harm.Price)
}

// short is the number of requests up to which a conversation counts as short.
const short = 100

// write prints the results of all conversations, then those by length and by agent.
func (r *result) write(w io.Writer) {
	var all sum
	groups := map[string]*sum{}
	for i := range r.Conversations {
		o := &r.Conversations[i]
		length := fmt.Sprintf("up to %d requests", short)
		if o.Calls > short {
			length = "longer"
		}
		all.add(o)
		for _, name := range []string{length, o.Agent} {
			if groups[name] == nil {
				groups[name] = new(sum)
			}
			groups[name].add(o)
		}
	}
	price := fmt.Sprintf("%g", r.Harm.Price)
	all.write(w, price)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		groups[name].write(w, price+", "+name)
	}
}

// choose returns the result of the lowest price with the harm within the bound, among the selected
// conversations. Without such a price it returns the highest.
func choose(tried []*result, of func(o *outcome) bool, bound float64) *result {
	for _, r := range tried {
		var s sum
		for i := range r.Conversations {
			if o := &r.Conversations[i]; of(o) {
				s.add(o)
			}
		}
		if s.harm() <= bound {
			return r
		}
	}
	return tried[len(tried)-1]
}
