// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import "sort"

// lexicon finds the vocabulary pieces at the beginning of a text.
type lexicon struct {
	pieces []string // sorted
	ids    []int32
	// first has the index of the first piece for each first byte.
	first [257]int32
}

func newLexicon(vocabulary []string) *lexicon {
	l := &lexicon{ids: make([]int32, 0, len(vocabulary))}
	for i, p := range vocabulary {
		if p != "" {
			l.ids = append(l.ids, int32(i))
		}
	}
	// Of equal pieces the last counts, as in a map that is filled in order.
	sort.Slice(l.ids, func(i, j int) bool {
		a, b := vocabulary[l.ids[i]], vocabulary[l.ids[j]]
		return a < b || a == b && l.ids[i] > l.ids[j]
	})
	l.pieces = make([]string, len(l.ids))
	for i, id := range l.ids {
		l.pieces[i] = vocabulary[id]
	}
	for b := range 256 {
		l.first[b] = int32(sort.Search(len(l.pieces), func(i int) bool { return int(l.pieces[i][0]) >= b }))
	}
	l.first[256] = int32(len(l.pieces))
	return l
}

// prefixes calls f with the length and the id of each piece at the beginning of s, shortest first.
func (l *lexicon) prefixes(s string, f func(length int, id int32)) {
	lo, hi := int(l.first[s[0]]), int(l.first[int(s[0])+1])
	for n := 1; lo < hi; n++ {
		if len(l.pieces[lo]) == n {
			f(n, l.ids[lo])
			for lo < hi && len(l.pieces[lo]) == n {
				lo++
			}
		}
		if n == len(s) {
			return
		}
		c := s[n]
		lo = between(lo, hi, func(i int) bool { return l.pieces[i][n] >= c })
		if c < 255 {
			hi = between(lo, hi, func(i int) bool { return l.pieces[i][n] > c })
		}
	}
}

func between(lo, hi int, f func(int) bool) int {
	return lo + sort.Search(hi-lo, func(i int) bool { return f(lo + i) })
}
