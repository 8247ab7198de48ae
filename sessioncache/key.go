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

package sessioncache

import (
	"crypto/hkdf"
	"crypto/sha256"
)

// KeySize is the length of keys that what lies on a disk or at a server is sealed with, in bytes.
const KeySize = 32

// DeriveKey makes a key for one purpose from another.
func DeriveKey(key [KeySize]byte, purpose string) (out [KeySize]byte) {
	derived, err := hkdf.Key(sha256.New, key[:], nil, "llm_cache "+purpose, KeySize)
	if err != nil {
		panic(err) // only for lengths that this is not
	}
	copy(out[:], derived)
	return out
}
