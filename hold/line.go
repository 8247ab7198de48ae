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

package hold

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
