// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import "math"

// kernels are the inner loops, which take nearly all of the time.
type kernels struct {
	// Name is the name of the instruction set.
	Name string
	// multiply adds a tile of a·b to a tile of c: tileRows rows of a, depth columns each, times
	// depth rows of a panel.
	multiply func(c []float32, cStride int, a []float32, aStride int, b []float32, depth int)
	// exp replaces x by exp(scale·(x − max x)) and returns the sum. The length of x is a multiple
	// of 8.
	exp func(x []float32, scale float32) float32
	// gelu replaces x by GELU(x). The length of x is a multiple of 8.
	gelu func(x []float32)

	// multiplyBytes adds a tile of a·b to a contiguous tile of c: tileRows rows of a times four
	// times depth rows of a panel.
	multiplyBytes func(c []int32, a []uint8, aStride int, b []int8, depth int)
	// widen converts a row of sums to floats, by the row's scale and zero and the columns' scales,
	// sums of weights and biases.
	widen func(dst *[tileCols]float32, c *[tileCols]int32, scale float32, zero int32, scales *[tileCols]float32,
		sums *[tileCols]int32, bias *[tileCols]float32)
	// extremes returns the minimum and the maximum of x.
	extremes func(x []float32) (low, high float32)
	// bytes sets dst to x·inverse + zero, rounded, for the length of x.
	bytes func(dst []uint8, x []float32, inverse float32, zero int32)
}

// kernel is the fastest set of kernels for this CPU.
var kernel = portable

var portable = kernels{
	Name: "portable", multiply: multiplyPortable, exp: expPortable, gelu: geluPortable,
	multiplyBytes: multiplyBytesPortable, widen: widenPortable, extremes: extremesPortable, bytes: bytesPortable,
}

func multiplyPortable(c []float32, cStride int, a []float32, aStride int, b []float32, depth int) {
	for r := range tileRows {
		sum := (*[tileCols]float32)(c[r*cStride:])
		for k := range depth {
			v, row := a[r*aStride+k], (*[tileCols]float32)(b[k*tileCols:])
			for j := range sum {
				sum[j] += v * row[j]
			}
		}
	}
}

func expPortable(x []float32, scale float32) float32 {
	top := float32(math.Inf(-1))
	for _, v := range x {
		top = max(top, v)
	}
	var sum float32
	for i, v := range x {
		// Subtracting the maximum avoids an overflow.
		e := float32(math.Exp(float64(scale * (v - top))))
		x[i] = e
		sum += e
	}
	return sum
}

func geluPortable(x []float32) {
	for i, v := range x {
		x[i] = float32(float64(v) * 0.5 * (1 + math.Erf(float64(v)/math.Sqrt2)))
	}
}

func multiplyBytesPortable(c []int32, a []uint8, aStride int, b []int8, depth int) {
	for r := range tileRows {
		sums := (*[tileCols]int32)(c[r*tileCols:])
		for k := range depth {
			v := (*[4]uint8)(a[r*aStride+4*k:])
			row := (*[4 * tileCols]int8)(b[k*4*tileCols:])
			for j := range sums {
				sums[j] += int32(v[0])*int32(row[4*j]) + int32(v[1])*int32(row[4*j+1]) +
					int32(v[2])*int32(row[4*j+2]) + int32(v[3])*int32(row[4*j+3])
			}
		}
	}
}

func widenPortable(dst *[tileCols]float32, c *[tileCols]int32, scale float32, zero int32, scales *[tileCols]float32,
	sums *[tileCols]int32, bias *[tileCols]float32,
) {
	for j := range dst {
		dst[j] = float32(c[j]-zero*sums[j])*(scale*scales[j]) + bias[j]
	}
}

func extremesPortable(x []float32) (low, high float32) {
	low, high = x[0], x[0]
	for _, v := range x {
		low, high = min(low, v), max(high, v)
	}
	return low, high
}

func bytesPortable(dst []uint8, x []float32, inverse float32, zero int32) {
	for i, v := range x {
		dst[i] = uint8(min(max(int32(math.RoundToEven(float64(v*inverse)))+zero, 0), 255))
	}
}
