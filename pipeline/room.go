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

package pipeline

import "sync"

// room is memory for learning and planning, used again by the next request:
// planning looks at every block of a conversation, and in long ones it would
// otherwise make up half of all that a request allocates.
type room struct {
	value, saving, kept, again []float64

	partly []bool
	cuts   []cut
	known  []appraisal
	files  map[uint64]past
	edits  map[uint64]edited
	lines  []uint64 // of one block at a time
}

var rooms = sync.Pool{New: func() any { return &room{files: make(map[uint64]past), edits: make(map[uint64]edited)} }}

// mostFiles bounds the files of a room that is used again: to empty a map takes
// as long as it has ever been large.
const mostFiles = 1024

func (r *room) release() {
	if len(r.files) > mostFiles || len(r.edits) > mostFiles {
		return
	}
	clear(r.files)
	clear(r.edits)
	rooms.Put(r)
}

// zeroed returns n zero values, in the memory of s if they fit.
func zeroed[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4+16)
	}
	s = s[:n]
	clear(s)
	return s
}
