// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "strings"

// EditKinds is a set of edit kinds. An upstream may reject one kind and accept the rest.
type EditKinds uint8

const (
	// EditTools marks a request with tools that the client did not send.
	EditTools EditKinds = 1 << iota
	// EditMarkers marks a request with cache markers or options that the client did not send.
	EditMarkers
	// EditText marks a request with shortened or removed blocks.
	EditText
	// EditOverlay marks a prompt that starts with an earlier prompt's bytes, for a local server.
	EditOverlay
	// EditUsage marks a request that asks for the usage of a stream.
	EditUsage

	// AllEdits is the set of all kinds.
	AllEdits = EditTools | EditMarkers | EditText | EditOverlay | EditUsage
)

var editKindNames = [...]string{"tools", "markers", "text", "overlay", "usage"}

// Has reports whether the sets have a kind in common.
func (k EditKinds) Has(any EditKinds) bool { return k&any != 0 }

// String returns the names of the kinds, separated by commas.
func (k EditKinds) String() string {
	var names []string
	for i, name := range editKindNames {
		if k.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}
