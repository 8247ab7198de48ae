// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// Sign returns the simulated model's signature of a thinking text. It is deterministic, opaque, and
// about as long as real ones: about 200 characters and 1.4 for each character of the text.
func Sign(thinking string) string {
	raw := make([]byte, 0, 150+len(thinking)*21/20+sha256.Size)
	seed := sha256.Sum256([]byte(thinking))
	for n := uint64(0); len(raw) < 150+len(thinking)*21/20; n++ {
		part := sha256.Sum256(binary.BigEndian.AppendUint64(seed[:], n))
		raw = append(raw, part[:]...)
	}
	return base64.StdEncoding.EncodeToString(raw[:150+len(thinking)*21/20])
}
