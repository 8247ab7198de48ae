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
	"hash/maphash"
	"sync/atomic"
)

// names are strings that come with request after request, as those of models and
// hosts: one copy serves them all. The newest of those that fall into a place has it.
var names [1024]atomic.Pointer[string]

var seed = maphash.MakeSeed()

// longestName bounds the strings that are kept, in bytes.
const longestName = 256

// Intern is string(b) for what few different requests differ in. It must not be given
// what is secret: it stays.
func Intern(b []byte) string {
	if len(b) > longestName {
		return string(b)
	}
	at := &names[maphash.Bytes(seed, b)%uint64(len(names))]
	if s := at.Load(); s != nil && *s == string(b) {
		return *s
	}
	s := string(b)
	at.Store(&s)
	return s
}
