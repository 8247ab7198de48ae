// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

// runnable are the kernels that this CPU can run.
func runnable() []kernels {
	switch kernel.Name {
	case vnni.Name:
		return []kernels{portable, avx2, avx512, vnni}
	case avx512.Name:
		return []kernels{portable, avx2, avx512}
	case avx2.Name:
		return []kernels{portable, avx2}
	}
	return []kernels{portable}
}
