// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

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
