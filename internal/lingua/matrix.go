// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

// matrix has float32 rows. Rows and columns are padded to whole tiles, so that kernels need no edge
// cases. The stride has extra room, so that the rows do not all map to the same CPU cache lines.
type matrix struct {
	rows, cols, stride int
	data               []float32
}

const (
	tileRows = 8
	tileCols = 48
)

func tiles(n, size int) int { return (n + size - 1) / size }

// reshape sets the dimensions, and reuses the memory if it suffices. The contents are undefined.
func (m *matrix) reshape(rows, cols int) {
	m.rows, m.cols = rows, cols
	m.stride = tiles(cols, tileCols)*tileCols + 16
	n := tiles(rows, tileRows) * tileRows * m.stride
	if cap(m.data) < n {
		m.data = make([]float32, n)
	}
	m.data = m.data[:n]
}

func (m *matrix) row(i int) []float32 {
	return m.data[i*m.stride:][:m.cols]
}

// fill sets every row, padding included, to v followed by zeros.
func (m *matrix) fill(v []float32) {
	for at := 0; at < len(m.data); at += m.stride {
		row := m.data[at : at+m.stride]
		clear(row[copy(row, v):])
	}
}

// panels are the right side of a product: tileCols columns side by side, row by row, so that a
// kernel reads memory in order.
type panels struct {
	rows, cols int
	data       []float32
}

func (p *panels) reshape(rows, cols int) {
	p.rows, p.cols = rows, cols
	n := tiles(cols, tileCols) * rows * tileCols
	if cap(p.data) < n {
		p.data = make([]float32, n)
	}
	p.data = p.data[:n]
}

func (p *panels) panel(i int) []float32 {
	return p.data[i*p.rows*tileCols:][:p.rows*tileCols]
}

// blockRows is the number of panel rows that fit into the CPU's L1 cache.
const blockRows = 128

// addProduct adds the columns of a·b between two panels to c.
func addProduct(c, a *matrix, b *panels, from, to int) {
	for i := from; i < to; i++ {
		panel := b.panel(i)
		for k := 0; k < b.rows; k += blockRows {
			depth := min(blockRows, b.rows-k)
			for r := 0; r < a.rows; r += tileRows {
				kernel.multiply(
					c.data[r*c.stride+i*tileCols:], c.stride,
					a.data[r*a.stride+k:], a.stride,
					panel[k*tileCols:], depth)
			}
		}
	}
}
