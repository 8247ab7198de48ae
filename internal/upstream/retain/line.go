// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package retain

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Line is the answers that one went on from, by hashes of their ids: what is kept with it
// holds all of them.
type Line []uint64

// After returns the line of what goes on from an answer that has this line.
func (l Line) After(id string) Line {
	return append(l[:len(l):len(l)], xxhash.Sum64String(id))
}

// Has reports whether an answer is in the line.
func (l Line) Has(id string) bool { return slices.Contains(l, xxhash.Sum64String(id)) }
