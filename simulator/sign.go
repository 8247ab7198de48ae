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

package simulator

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// Sign returns the signature that the simulated model gives a thinking text:
// always the same for the same text, opaque, and about as long as real ones,
// which measure near 200 characters and 1.4 for each character of the text.
func Sign(thinking string) string {
	raw := make([]byte, 0, 150+len(thinking)*21/20+sha256.Size)
	seed := sha256.Sum256([]byte(thinking))
	for n := uint64(0); len(raw) < 150+len(thinking)*21/20; n++ {
		part := sha256.Sum256(binary.BigEndian.AppendUint64(seed[:], n))
		raw = append(raw, part[:]...)
	}
	return base64.StdEncoding.EncodeToString(raw[:150+len(thinking)*21/20])
}
