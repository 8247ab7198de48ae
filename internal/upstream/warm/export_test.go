// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package warm

// LoadIdle lets each box find that nobody has asked it for as long as it takes
// until its model is to be kept loaded.
func (b *Boxes) LoadIdle() {
	b.byQueue.Range(func(_, x any) bool {
		x.(*Box).load()
		return true
	})
}
