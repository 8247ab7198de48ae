// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import "math"

// quantized is a layer with 8-bit weights and a scale for each column. Only 7 of the 8 bits are used, so that no
// kernel's sum of two products overflows 16 bits and all CPUs compute the same numbers.
type quantized struct {
	rows, cols int // of the weights in the product: in, out
	// data are panels: for each group of four rows the four weights of each column.
	data []int8
	// scale and sum of each column, bias of each column.
	scale, bias []float32
	sum         []int32
	// idle is memory for one run.
	idle chan *bytesScratch
}

// bytesScratch has the rows of one run in 8 bits.
type bytesScratch struct {
	stride int
	data   []uint8
	// A value is scale·(byte − zero).
	scale []float32
	zero  []int32
}

// maxWeight is the largest weight of 7 bits.
const maxWeight = 63

// blockQuads is the number of groups of four panel rows that fit into the L1 cache.
const blockQuads = 128

func newQuantized(n, m int, bias []float32, read func(i int) ([]float32, error)) (layer, error) {
	wide, quads := tiles(n, tileCols)*tileCols, tiles(m, 4)
	q := &quantized{
		rows: m, cols: n, data: make([]int8, wide*quads*4),
		scale: make([]float32, wide), bias: make([]float32, wide), sum: make([]int32, wide),
		idle: make(chan *bytesScratch, 1),
	}
	copy(q.bias, bias)
	for i := 0; i < n; i += tileCols {
		part, err := read(i)
		if err != nil {
			return nil, err
		}
		panel := q.data[i*quads*4:][:quads*4*tileCols]
		for j := 0; j*m < len(part); j++ {
			q.pack(panel, i+j, j, part[j*m:][:m])
		}
	}
	return q, nil
}

// pack stores a row of weights as column j of a panel.
func (q *quantized) pack(panel []int8, col, j int, row []float32) {
	var top float32
	for _, v := range row {
		top = max(top, v, -v)
	}
	if top == 0 {
		return
	}
	q.scale[col] = top / maxWeight
	for k, v := range row {
		b := int8(math.RoundToEven(float64(v / top * maxWeight)))
		panel[k/4*4*tileCols+j*4+k%4] = b
		q.sum[col] += int32(b)
	}
}

func (q *quantized) apply(p *pool, out, in *matrix) {
	out.reshape(in.rows, q.cols)
	var s *bytesScratch
	select {
	case s = <-q.idle:
	default:
		s = new(bytesScratch)
	}
	quads := tiles(q.rows, 4)
	s.quantize(p, in, quads)
	wide := tiles(q.cols, tileCols)
	p.each(wide, func(_, from, to int) {
		sums := make([]int32, tiles(in.rows, tileRows)*tileRows*tileCols)
		for i := from; i < to; i++ {
			clear(sums)
			panel := q.data[i*quads*4*tileCols:][:quads*4*tileCols]
			for k := 0; k < quads; k += blockQuads {
				depth := min(blockQuads, quads-k)
				for r := 0; r < in.rows; r += tileRows {
					kernel.multiplyBytes(sums[r*tileCols:], s.data[r*s.stride+4*k:], s.stride, panel[k*4*tileCols:], depth)
				}
			}
			for r := range in.rows {
				kernel.widen(
					(*[tileCols]float32)(out.data[r*out.stride+i*tileCols:]), (*[tileCols]int32)(sums[r*tileCols:]),
					s.scale[r], s.zero[r], (*[tileCols]float32)(q.scale[i*tileCols:]),
					(*[tileCols]int32)(q.sum[i*tileCols:]), (*[tileCols]float32)(q.bias[i*tileCols:]))
			}
		}
	})
	select {
	case q.idle <- s:
	default:
	}
}

// quantize turns rows into bytes, each row with its own scale and zero.
func (s *bytesScratch) quantize(p *pool, in *matrix, quads int) {
	s.stride = quads*4 + 64
	rows := tiles(in.rows, tileRows) * tileRows
	if n := rows * s.stride; cap(s.data) < n {
		s.data = make([]uint8, n)
	}
	s.data = s.data[:rows*s.stride]
	if cap(s.scale) < rows {
		s.scale, s.zero = make([]float32, rows), make([]int32, rows)
	}
	s.scale, s.zero = s.scale[:rows], s.zero[:rows]
	p.each(in.rows, func(_, from, to int) {
		for i := from; i < to; i++ {
			row := in.row(i)
			low, high := kernel.extremes(row)
			// Zero must have an exact representation.
			low, high = min(low, 0), max(high, 0)
			scale := (high - low) / 255
			if scale == 0 {
				scale = 1
			}
			zero := int32(math.RoundToEven(float64(-low / scale)))
			s.scale[i], s.zero[i] = scale, zero
			dst := s.data[i*s.stride:][:quads*4]
			kernel.bytes(dst, row, 1/scale, zero)
			clear(dst[len(row):])
		}
	})
}
