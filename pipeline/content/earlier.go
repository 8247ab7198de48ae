// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import "iter"

// MostAlike bounds the blocks that are looked at for one block, of all that are alike.
const MostAlike = 64

// earlier knows the blocks by their content and by the file that they are about. Where
// few blocks are new, it is empty: a search for each is less work.
type earlier struct {
	known    int // so many blocks are in it
	contents map[uint64][]int32
	files    map[uint64][]int32
	slab     []int32 // room for the first of each list, which most have no more than
}

// add adds the block that comes next to a list.
func (e *earlier) add(list []int32) []int32 {
	if list == nil && len(e.slab) > 0 {
		list, e.slab = e.slab[:0:1], e.slab[1:]
	}
	return append(list, int32(e.known))
}

// learned puts the blocks in front of i into it, and reports whether it is in use.
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

// Alike yields the blocks in front of i of a content, the first first.
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

// About yields the blocks in front of i that are about a file, the latest first.
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
