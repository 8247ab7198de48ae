// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

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
