// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import "fmt"

// layer maps rows to rows: x·wᵀ + b.
type layer interface {
	apply(p *pool, out, in *matrix)
}

// linear is a layer with float32 weights.
type linear struct {
	weight panels
	bias   []float32
}

func (l *linear) apply(p *pool, out, in *matrix) {
	out.reshape(in.rows, l.weight.cols)
	out.fill(l.bias)
	p.each(tiles(l.weight.cols, tileCols), func(_, from, to int) {
		addProduct(out, in, &l.weight, from, to)
	})
}

// dense reads a layer from m to n columns.
func (w *weights) dense(name string, n, m int, int8s bool) (layer, error) {
	t, err := w.tensor(name+".weight", n, m)
	if err != nil {
		return nil, err
	}
	bias, err := w.vector(name+".bias", n)
	if err != nil {
		return nil, err
	}
	// Reading a panel at a time needs no more memory than the result.
	rows := make([]float32, tileCols*m)
	buf := make([]byte, len(rows)*int(t.width()))
	read := func(i int) ([]float32, error) {
		part := rows[:min(tileCols, n-i)*m]
		if err := w.read(part, t, i*m, buf); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		return part, nil
	}
	if int8s {
		return newQuantized(n, m, bias, read)
	}
	l := &linear{bias: bias}
	l.weight.reshape(m, n)
	for i := 0; i < n; i += tileCols {
		part, err := read(i)
		if err != nil {
			return nil, err
		}
		l.weight.pack(i/tileCols, part)
	}
	return l, nil
}

// pack stores rows as the columns of a panel.
func (p *panels) pack(i int, rows []float32) {
	panel := p.panel(i)
	for j := 0; j*p.rows < len(rows); j++ {
		for k, v := range rows[j*p.rows:][:p.rows] {
			panel[k*tileCols+j] = v
		}
	}
}
