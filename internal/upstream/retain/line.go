// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package retain

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Line has the hashes of the answers' ids in a conversation, up to the latest. A retained
// response includes all of them.
type Line []uint64

// After returns the line extended by an answer.
func (l Line) After(id string) Line {
	return append(l[:len(l):len(l)], xxhash.Sum64String(id))
}

// Has reports whether an answer is in the line.
func (l Line) Has(id string) bool { return slices.Contains(l, xxhash.Sum64String(id)) }
