// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

// callIndex finds the calls of an answer: an upstream may make thousands, and send
// their arguments byte by byte.
type callIndex struct {
	at  map[int64]*Block // the latest call of an index
	ids map[string]struct{}
}

func (x *callIndex) add(b *Block) {
	if x.at == nil {
		x.at = map[int64]*Block{}
	}
	x.at[b.Call.index] = b
}

// take reports whether no call had an id before.
func (x *callIndex) take(id string) bool {
	if _, taken := x.ids[id]; taken {
		return false
	}
	if x.ids == nil {
		x.ids = map[string]struct{}{}
	}
	x.ids[id] = struct{}{}
	return true
}
