// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import "math"

// attention is the first half of an encoder block.
type attention struct {
	query, key, value, output layer
	norm                      norm32
}

// head is the memory of one attention head, in addition to its rows of scratch.
type head struct {
	queries, scores, context matrix
	keys, values             panels
}

// apply replaces x by the output of the block's first half.
func (a *attention) apply(p *pool, s *scratch, x *matrix, heads int) {
	a.query.apply(p, &s.query, x)
	a.key.apply(p, &s.key, x)
	a.value.apply(p, &s.value, x)
	s.context.reshape(x.rows, x.cols)
	clear(s.context.data)
	size := x.cols / heads
	p.each(heads, func(worker, from, to int) {
		h := &s.heads[worker]
		for i := from; i < to; i++ {
			h.attend(s, i*size, size)
		}
	})
	a.output.apply(p, &s.query, &s.context)
	a.norm.addAndApply(x, &s.query)
}

// attend computes the columns of s.context from col on.
func (h *head) attend(s *scratch, col, size int) {
	n := s.query.rows
	h.queries.reshape(n, size)
	h.scores.reshape(n, n)
	h.context.reshape(n, size)
	h.keys.reshape(size, n)
	h.values.reshape(n, size)
	clear(h.scores.data)
	clear(h.context.data)
	for i := range n {
		copy(h.queries.row(i), s.query.row(i)[col:])
		panel, j := h.keys.panel(i/tileCols), i%tileCols
		for k, v := range s.key.row(i)[col : col+size] {
			panel[k*tileCols+j] = v
		}
		for k := 0; k < size; k += tileCols {
			copy(h.values.panel(k / tileCols)[i*tileCols:][:min(tileCols, size-k)], s.value.row(i)[col+k:col+size])
		}
	}
	addProduct(&h.scores, &h.queries, &h.keys, 0, tiles(n, tileCols))
	scale := float32(1 / math.Sqrt(float64(size)))
	whole := tiles(n, 8) * 8
	sums := make([]float32, n)
	for i := range n {
		row := h.scores.data[i*h.scores.stride:][:whole]
		// The kernel takes whole multiples of 8; the padding must not count.
		for j := n; j < whole; j++ {
			row[j] = -math.MaxFloat32 / 2
		}
		sums[i] = kernel.exp(row, scale)
	}
	addProduct(&h.context, &h.scores, &h.values, 0, tiles(size, tileCols))
	for i := range n {
		out, f := s.context.row(i)[col:col+size], 1/sums[i]
		for j, v := range h.context.row(i) {
			out[j] = v * f
		}
	}
}
