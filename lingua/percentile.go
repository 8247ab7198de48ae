// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package lingua

import (
	"math"
	"slices"
)

// percentile is numpy's, with the default of interpolation. It sorts v, which
// is not empty.
func percentile(v []float64, percent int) float64 {
	slices.Sort(v)
	x := float64(len(v)-1) * (float64(percent) / 100)
	low := math.Floor(x)
	t := x - low
	a, b := v[int(low)], v[min(int(low)+1, len(v)-1)]
	// Each product is rounded by itself, also where the CPU could fuse it.
	if t < 0.5 {
		return a + float64((b-a)*t)
	}
	return b - float64((b-a)*(1-t))
}
