// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
)

// perToken is the approximate length of a token in bytes of JSON.
const perToken = 3.3

// report prints a table of the moments.
func report(w io.Writer, found []*finding, rules pricing.Rules) {
	var base, cost float64
	edits, harmed := 0, 0
	for _, f := range found {
		base, cost = base+f.BaseCost, cost+f.Cost
		edits, harmed = edits+f.Edits, harmed+len(f.harmed)
	}
	fmt.Fprintf(w,
		"%d conversations, cost %+.1f %%, %d of %d edits harmed\n\n| given back when | texts | thousands of tokens | "+
			"harmed edits reached | cost |\n|---|--:|--:|--:|--:|\n",
		len(found), 100*(cost/base-1), harmed, edits)
	row := func(name string, when func(x *fold) int) {
		texts, reached := 0, 0
		var tokens, price float64
		for _, f := range found {
			for _, x := range f.folds {
				if k := when(x); k > x.at && k <= x.last {
					texts++
					n := float64(x.bytes) / perToken
					tokens += n
					price += n * (rules.Write + rules.Read*float64(x.last-k))
				}
			}
			for i, missed := range f.harmed {
				there := func(x *fold) bool { k := when(x); return k > x.at && k <= f.at[i] }
				if !slices.ContainsFunc(missed, func(holders []*fold) bool { return !slices.ContainsFunc(holders, there) }) {
					reached++
				}
			}
		}
		fmt.Fprintf(w, "| %s | %d | %.0f | %d | %+.1f |\n", name, texts, tokens/1000, reached, 100*price/base)
	}
	for m, name := range names {
		row(name, func(x *fold) int { return x.first[m] })
	}
	row("it is quoted, or a result names it", func(x *fold) int {
		if x.first[quoted] == 0 || x.first[result] > 0 && x.first[result] < x.first[quoted] {
			return x.first[result]
		}
		return x.first[quoted]
	})
}
