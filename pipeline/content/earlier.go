// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import "iter"

// MostAlike limits the similar blocks to compare with one block.
const MostAlike = 64

// earlier indexes the blocks by their content and by their file. It stays empty for few new blocks:
// a search for each is faster.
type earlier struct {
	known    int // number of indexed blocks
	contents map[uint64][]int32
	files    map[uint64][]int32
	slab     []int32 // memory for the first element of each list; most lists have one
}

// add appends the next block to a list.
func (e *earlier) add(list []int32) []int32 {
	if list == nil && len(e.slab) > 0 {
		list, e.slab = e.slab[:0:1], e.slab[1:]
	}
	return append(list, int32(e.known))
}

// learned indexes the blocks before i, and reports whether the index is in use.
func (h *History) learned(i int) bool {
	e := &h.earlier
	if len(h.Blocks)-h.Known <= FewBlocks {
		return false
	}
	if e.contents == nil {
		n := len(h.Blocks) / 4
		e.contents, e.files, e.slab = make(map[uint64][]int32, n), make(map[uint64][]int32, n), make([]int32, 2*n)
	}
	for ; e.known < i; e.known++ {
		s := &h.States[e.known]
		if s.Content != 0 {
			if c := e.contents[s.Content]; len(c) <= MostAlike {
				e.contents[s.Content] = e.add(c)
			}
		}
		if s.Path != 0 {
			e.files[s.Path] = e.add(e.files[s.Path])
		}
	}
	return true
}

// Alike yields the blocks before i with a content, the earliest first.
func (h *History) Alike(i int, content uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		if h.learned(i) {
			for _, j := range h.earlier.contents[content] {
				if !yield(int(j)) {
					return
				}
			}
			return
		}
		for j := range i {
			if h.States[j].Content == content && !yield(j) {
				return
			}
		}
	}
}

// About yields the blocks before i about a file, the latest first.
func (h *History) About(i int, file uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		if h.learned(i) {
			all := h.earlier.files[file]
			for n := len(all) - 1; n >= 0; n-- {
				if !yield(int(all[n])) {
					return
				}
			}
			return
		}
		for j := i - 1; j >= 0; j-- {
			if h.States[j].Path == file && !yield(j) {
				return
			}
		}
	}
}
