// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Cut replaces the bytes Start to End (exclusive) by With.
type Cut struct {
	Start, End int32
	With       []byte
}

// Replace returns a copy of raw with the cuts applied. The cuts must not overlap.
func Replace(raw []byte, cuts []Cut) ([]byte, error) {
	return join(raw, slices.Clone(cuts))
}

// Without returns the cut that removes a member, key included, from its object.
func (v *View) Without(member rawjson.Span) Cut {
	return v.member(member)
}

// Unmark returns the cut that removes a block's cache marker, and false for a block without one.
func (v *View) Unmark(block int) (Cut, bool) {
	marker := v.Blocks[block].Marker
	if marker.Empty() {
		return Cut{}, false
	}
	const space = " \t\r\n"
	// The span only covers the value: find the key before it.
	before := bytes.TrimRight(v.Raw[:marker.Start], space)
	before, ok := bytes.CutSuffix(before, []byte{':'})
	if !ok {
		return Cut{}, false
	}
	before, ok = bytes.CutSuffix(bytes.TrimRight(before, space), []byte{'"'})
	quote := bytes.LastIndexByte(before, '"')
	if !ok || quote < 0 {
		return Cut{}, false
	}
	return v.Without(rawjson.Span{Start: int32(quote), End: marker.End}), true
}
