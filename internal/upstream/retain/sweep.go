// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package retain

import (
	"time"
	"weak"
)

// Sweep has expire called after some time, and again after as long as that returns, until
// it is 0: prompts stay in memory no longer than they may, although nobody asks any more.
// What is not used otherwise is not kept in memory for this.
func Sweep[T any](of *T, d time.Duration, expire func(*T) time.Duration) {
	kept := weak.Make(of)
	time.AfterFunc(d, func() {
		of := kept.Value()
		if of == nil {
			return
		}
		if next := expire(of); next > 0 {
			Sweep(of, next, expire)
		}
	})
}
