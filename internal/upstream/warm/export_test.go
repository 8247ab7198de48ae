// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package warm

// LoadIdle makes each server appear idle for so long that its model must be kept loaded.
func (b *Servers) LoadIdle() {
	for _, x := range b.byName.All() {
		x.load()
	}
}
