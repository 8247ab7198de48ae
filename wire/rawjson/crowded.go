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

package rawjson

import "bytes"

// maxValues bounds the values in a body, whatever they are part of. The longest recorded
// conversation has some ten thousand, and a context of a million tokens has no room for
// as many; each costs some hundred nanoseconds of everyone who looks for a member among
// them.
const maxValues = 1 << 20

// Crowded reports whether a body may hold more values than are read: it has more commas
// and opening brackets, wherever they stand. Those in strings count, too: inputs and
// results are JSON in strings, which is looked into, and a text with as many is longer
// than any context.
func Crowded(body []byte) bool {
	if len(body) <= maxValues {
		return false
	}
	const step = 16 << 10 // in the processor's nearest cache
	n := 0
	for ; n <= maxValues && n+len(body) > maxValues; body = body[min(step, len(body)):] {
		part := body[:min(step, len(body))]
		for i := range separators {
			n += bytes.Count(part, separators[i:i+1])
		}
	}
	return n > maxValues
}

var separators = []byte(",{[")
