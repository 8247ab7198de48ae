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

package reuse

import (
	"math/bits"
	"sync"
)

// Bodies are large and short-lived: without reuse they would make up most of
// what the garbage collector has to do. There is one pool for each power of two, and
// a shelf for what is larger.
const (
	smallestBuffer = 12 // 4 KiB
	largestBuffer  = 23 // 8 MiB
)

var (
	buffers [largestBuffer + 1]sync.Pool
	large   shelf
)

// headers keeps what slices stand in while they are in a pool.
var headers sync.Pool

// Buffer returns an empty slice with room for at least n bytes.
func Buffer(n int) []byte {
	class := max(bits.Len(uint(max(n, 1)-1)), smallestBuffer)
	if class > largestBuffer {
		return large.take(n)
	}
	if h, ok := buffers[class].Get().(*[]byte); ok {
		b := (*h)[:0]
		*h = nil
		headers.Put(h)
		return b
	}
	return make([]byte, 0, 1<<class)
}

// Recycle gives a slice that came from Buffer back. Nothing may use it, or
// anything that points into it, from here on.
func Recycle(b []byte) {
	class := bits.Len(uint(cap(b))) - 1
	if class >= largestBuffer && cap(b) > 1<<largestBuffer {
		large.put(b)
		return
	}
	if class < smallestBuffer || cap(b) != 1<<class {
		return
	}
	h, ok := headers.Get().(*[]byte)
	if !ok {
		h = new([]byte)
	}
	*h = b[:0]
	buffers[class].Put(h)
}
