// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package reuse

import (
	"hash/maphash"
	"sync/atomic"
)

// names caches strings that repeat across requests, such as model and host names. A newer string
// replaces the older one in its slot.
var names [1024]atomic.Pointer[string]

var seed = maphash.MakeSeed()

// longestName is the maximum length of a cached string, in bytes.
const longestName = 256

// Intern returns string(b) from a cache of strings with few distinct values. b must not be secret,
// because the cache has no expiry.
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
