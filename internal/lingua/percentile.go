// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"math"
	"slices"
)

// percentile is numpy.percentile with linear interpolation. It sorts v, which must not be empty.
func percentile(v []float64, percent int) float64 {
	slices.Sort(v)
	x := float64(len(v)-1) * (float64(percent) / 100)
	low := math.Floor(x)
	t := x - low
	a, b := v[int(low)], v[min(int(low)+1, len(v)-1)]
	// Round each product, since the CPU could fuse multiplication and addition.
	if t < 0.5 {
		return a + float64((b-a)*t)
	}
	return b - float64((b-a)*(1-t))
}
