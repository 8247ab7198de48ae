// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import "math"

// norm32 is a layer normalization.
type norm32 struct {
	weight, bias []float32
	epsilon      float64
}

func (w *weights) norm(name string, n int, epsilon float64) (norm32, error) {
	weight, err := w.vector(name+".weight", n)
	if err != nil {
		return norm32{}, err
	}
	bias, err := w.vector(name+".bias", n)
	return norm32{weight, bias, epsilon}, err
}

// addAndApply adds y to x and normalizes the sum.
func (n norm32) addAndApply(x, y *matrix) {
	for i := range x.rows {
		row, add := x.row(i), y.row(i)
		for j, v := range add {
			row[j] += v
		}
		n.apply(row)
	}
}

func (n norm32) apply(row []float32) {
	// Four sums shorten the chain of dependent additions.
	var s0, s1, s2, s3 float32
	j := 0
	for ; j+4 <= len(row); j += 4 {
		s0 += row[j]
		s1 += row[j+1]
		s2 += row[j+2]
		s3 += row[j+3]
	}
	for ; j < len(row); j++ {
		s0 += row[j]
	}
	mean := (s0 + s1 + s2 + s3) / float32(len(row))
	s0, s1, s2, s3 = 0, 0, 0, 0
	for j = 0; j+4 <= len(row); j += 4 {
		a, b, c, d := row[j]-mean, row[j+1]-mean, row[j+2]-mean, row[j+3]-mean
		s0 += a * a
		s1 += b * b
		s2 += c * c
		s3 += d * d
	}
	for ; j < len(row); j++ {
		s0 += (row[j] - mean) * (row[j] - mean)
	}
	variance := float64(s0+s1+s2+s3) / float64(len(row))
	f := float32(1 / math.Sqrt(variance+n.epsilon))
	weight, bias := n.weight[:len(row)], n.bias[:len(row)]
	for j, v := range row {
		row[j] = (v-mean)*f*weight[j] + bias[j]
	}
}
