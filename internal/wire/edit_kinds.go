// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "strings"

// EditKinds is a set of kinds of edits: what an upstream may refuse of a request without
// refusing the rest.
type EditKinds uint8

const (
	// EditTools says that the request offers tools that the client has not put into it.
	EditTools EditKinds = 1 << iota
	// EditMarkers says that the request says more about caching than the client's.
	EditMarkers
	// EditText says that blocks are shorter than the client's, or gone.
	EditText
	// EditOverlay says that the prompt begins as an earlier one at a local server.
	EditOverlay
	// EditUsage says that the request asks for the usage of a stream.
	EditUsage

	// AllEdits are all kinds.
	AllEdits = EditTools | EditMarkers | EditText | EditOverlay | EditUsage
)

var editKindNames = [...]string{"tools", "markers", "text", "overlay", "usage"}

// Has reports whether the sets share a kind.
func (k EditKinds) Has(any EditKinds) bool { return k&any != 0 }

// String names the kinds, separated by commas.
func (k EditKinds) String() string {
	var names []string
	for i, name := range editKindNames {
		if k.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}
