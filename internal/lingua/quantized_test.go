// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestInt8 says that weights of 8 bits come to the same numbers by all
// kernels, and close to those of float32.
func TestInt8(t *testing.T) {
	best := kernel
	defer func() { kernel = best }()
	r := rand.New(rand.NewPCG(1, 2))
	in := matrix{}
	in.reshape(21, 83)
	clear(in.data)
	for i := range in.rows {
		for j := range in.row(i) {
			in.row(i)[j] = float32(r.NormFloat64())
		}
	}
	rows := make([]float32, 50*83)
	for i := range rows {
		rows[i] = float32(r.NormFloat64())
	}
	bias := make([]float32, 50)
	read := func(i int) ([]float32, error) { return rows[i*83 : min(i+tileCols, 50)*83], nil }
	q, err := newQuantized(50, 83, bias, read)
	if err != nil {
		t.Fatal(err)
	}
	for _, kernel = range runnable() {
		out := matrix{}
		q.apply(&pool{2}, &out, &in)
		for i := range in.rows {
			for j := range 50 {
				want := 0.0
				for k, v := range in.row(i) {
					want += float64(v) * float64(rows[j*83+k])
				}
				if d := want - float64(out.row(i)[j]); d > 0.7 || d < -0.7 {
					t.Fatalf("%s: row %d, column %d: %g, want %g", kernel.Name, i, j, out.row(i)[j], want)
				}
			}
		}
	}
	ids := make([]position, 60)
	for i := range ids {
		ids[i] = position{int32(5 + i), i}
	}
	for _, family := range families {
		exact, err := open(t, family, Options{}).encoder.logits(context.Background(), ids)
		if err != nil {
			t.Fatal(err)
		}
		var first []float32
		for _, kernel = range runnable() {
			got, err := open(t, family, Options{Int8: true}).encoder.logits(context.Background(), ids)
			if err != nil {
				t.Fatal(err)
			}
			if d := distance(got, exact); d > 0.5 {
				t.Errorf("%s, %s: logits are off by %g", kernel.Name, family, d)
			}
			if first == nil {
				first = slices.Clone(got)
			}
			if d := distance(got, first); d > 0.1 {
				t.Errorf("%s, %s: logits differ from the portable ones by %g", kernel.Name, family, d)
			}
		}
	}
}

// TestBytesFit: no kernel overflows with extreme bytes and weights.
func TestBytesFit(t *testing.T) {
	const depth = 5
	a, b := make([]uint8, tileRows*depth*4), make([]int8, depth*4*tileCols)
	for i := range a {
		a[i] = 255
	}
	for i := range b {
		b[i] = maxWeight
		if i/4%3 == 1 {
			b[i] = -maxWeight
		}
	}
	best := kernel
	defer func() { kernel = best }()
	for _, kernel = range runnable() {
		c := make([]int32, tileRows*tileCols)
		kernel.multiplyBytes(c, a, depth*4, b, depth)
		for i, v := range c {
			want := int32(depth * 4 * 255 * maxWeight)
			if i%3 == 1 {
				want = -want
			}
			if v != want {
				t.Fatalf("%s: sum %d is %d, want %d", kernel.Name, i, v, want)
			}
		}
	}
}
