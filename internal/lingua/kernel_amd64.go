// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import "golang.org/x/sys/cpu"

func init() {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VNNI && cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		kernel = vnni
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		kernel = avx512
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		kernel = avx2
	}
}

var (
	avx2 = kernels{
		Name: "AVX2", multiply: multiplyAVX2, exp: expAVX2, gelu: geluAVX2,
		multiplyBytes: multiplyBytesAVX2, widen: widens, extremes: extremesAVX2, bytes: bytesAVX2,
	}
	avx512 = avx2.with("AVX-512", multiplyAVX512, multiplyBytesAVX2)
	vnni   = avx2.with("AVX-512 VNNI", multiplyAVX512, multiplyBytesVNNI)
)

func (k kernels) with(name string, multiply func([]float32, int, []float32, int, []float32, int),
	bytes func([]int32, []uint8, int, []int8, int),
) kernels {
	k.Name, k.multiply, k.multiplyBytes = name, multiply, bytes
	return k
}

func multiplyAVX2(c []float32, cStride int, a []float32, aStride int, b []float32, depth int) {
	_ = c[(tileRows-1)*cStride+tileCols-1] // the kernel checks no bounds
	_ = a[(tileRows-1)*aStride+depth-1]
	_ = b[depth*tileCols-1]
	for r := 0; r < tileRows; r += 4 {
		for j := 0; j < tileCols; j += 24 {
			multiply4x24(&c[r*cStride+j], cStride*4, &a[r*aStride], aStride*4, &b[j], depth)
		}
	}
}

func multiplyAVX512(c []float32, cStride int, a []float32, aStride int, b []float32, depth int) {
	_ = c[(tileRows-1)*cStride+tileCols-1] // the kernel checks no bounds
	_ = a[(tileRows-1)*aStride+depth-1]
	_ = b[depth*tileCols-1]
	multiply8x48(&c[0], cStride*4, &a[0], aStride*4, &b[0], depth)
}

func expAVX2(x []float32, scale float32) float32 {
	if len(x) == 0 {
		return 0
	}
	return exps(&x[0], len(x), scale)
}

func geluAVX2(x []float32) {
	if len(x) > 0 {
		gelus(&x[0], len(x))
	}
}

func multiplyBytesAVX2(c []int32, a []uint8, aStride int, b []int8, depth int) {
	_ = c[tileRows*tileCols-1] // the kernel checks no bounds
	_ = a[(tileRows-1)*aStride+4*depth-1]
	_ = b[4*depth*tileCols-1]
	for r := 0; r < tileRows; r += 4 {
		for j := 0; j < tileCols; j += 16 {
			multiplyBytes4x16(&c[r*tileCols+j], &a[r*aStride], aStride, &b[4*j], depth)
		}
	}
}

func multiplyBytesVNNI(c []int32, a []uint8, aStride int, b []int8, depth int) {
	_ = c[tileRows*tileCols-1] // the kernel checks no bounds
	_ = a[(tileRows-1)*aStride+4*depth-1]
	_ = b[4*depth*tileCols-1]
	multiplyBytes8x48(&c[0], &a[0], aStride, &b[0], depth)
}

func extremesAVX2(x []float32) (low, high float32) {
	n := len(x) &^ 7
	if n == 0 {
		return extremesPortable(x)
	}
	low, high = range32(&x[0], n)
	for _, v := range x[n:] {
		low, high = min(low, v), max(high, v)
	}
	return low, high
}

func bytesAVX2(dst []uint8, x []float32, inverse float32, zero int32) {
	n := len(x) &^ 7
	_ = dst[:len(x)]
	if n > 0 {
		bytes8(&dst[0], &x[0], n, inverse, zero)
	}
	bytesPortable(dst[n:], x[n:], inverse, zero)
}

// Strides are in bytes.
//
//go:noescape
func multiply4x24(c *float32, cStride int, a *float32, aStride int, b *float32, depth int)

//go:noescape
func multiply8x48(c *float32, cStride int, a *float32, aStride int, b *float32, depth int)

//go:noescape
func exps(x *float32, n int, scale float32) float32

//go:noescape
func gelus(x *float32, n int)

//go:noescape
func multiplyBytes4x16(c *int32, a *uint8, aStride int, b *int8, depth int)

//go:noescape
func multiplyBytes8x48(c *int32, a *uint8, aStride int, b *int8, depth int)

//go:noescape
func widens(dst *[tileCols]float32, c *[tileCols]int32, scale float32, zero int32, scales *[tileCols]float32,
	sums *[tileCols]int32, bias *[tileCols]float32)

//go:noescape
func range32(x *float32, n int) (low, high float32)

//go:noescape
func bytes8(dst *uint8, x *float32, n int, inverse float32, zero int32)
