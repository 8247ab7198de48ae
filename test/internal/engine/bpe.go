// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"regexp"
	"slices"
	"sync"
)

// words splits a text approximately like the model's tokenizer, well enough for learning merges.
var words = regexp.MustCompile(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\pL\pN]?\pL+|\pN| ` +
	`?[^\s\pL\pN]+[\r\n]*|\s*[\r\n]+|\s+`)

// alphabet returns a printable character for each byte, as in byte-level BPE.
func alphabet() (names [256]string) {
	spare := rune(256)
	for b := range names {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			names[b] = string(rune(b))
			continue
		}
		names[b] = string(spare)
		spare++
	}
	return names
}

type merge struct{ left, right string }

func (m merge) less(o merge) bool {
	return m.left+" "+m.right < o.left+" "+o.right
}

var learned struct {
	sync.Mutex
	text   string
	merges []merge
}

// vocabulary returns the merges of a text. They are cached, because all engines of a test run have
// the same text.
func vocabulary(text string) []merge {
	learned.Lock()
	defer learned.Unlock()
	if learned.merges == nil || learned.text != text {
		learned.text, learned.merges = text, learn(text, merges)
	}
	return learned.merges
}

// learn returns the most frequent merges of a text.
func learn(text string, most int) []merge {
	type word struct {
		symbols []string
		count   int
	}
	counts := map[string]int{}
	for _, w := range words.FindAllString(text, -1) {
		counts[w]++
	}
	names := alphabet()
	list := make([]word, 0, len(counts))
	for w, n := range counts {
		symbols := make([]string, len(w))
		for i := range len(w) {
			symbols[i] = names[w[i]]
		}
		list = append(list, word{symbols, n})
	}
	var merges []merge
	for len(merges) < most {
		pairs := map[merge]int{}
		for _, w := range list {
			for i := range len(w.symbols) - 1 {
				pairs[merge{w.symbols[i], w.symbols[i+1]}] += w.count
			}
		}
		best, count := merge{}, 1
		for p, n := range pairs {
			if n > count || n == count && count > 1 && p.less(best) {
				best, count = p, n
			}
		}
		if count < 2 {
			break
		}
		merges = append(merges, best)
		for i := range list {
			s := list[i].symbols
			for j := 0; j+1 < len(s); j++ {
				if s[j] == best.left && s[j+1] == best.right {
					s[j] += s[j+1]
					s = slices.Delete(s, j+1, j+2)
				}
			}
			list[i].symbols = s
		}
	}
	return merges
}
