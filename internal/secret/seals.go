// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import "crypto/cipher"

// Seals seal under the present key, and open data under the present or a former key.
type Seals struct{ *Ring[cipher.AEAD] }

// NewSeals makes the seals for a purpose, with their first key.
func NewSeals(purpose string, key Key) (Seals, error) {
	r, err := NewRing(func(k Key) (cipher.AEAD, error) { return k.Derive(purpose).Seal() }, key)
	return Seals{r}, err
}

// Overhead is the number of bytes that sealing adds.
func (s Seals) Overhead() int { return s.Now().Overhead() }

// Seal appends the sealed text to dst. to is authenticated with the text, but not part of the output.
func (s Seals) Seal(dst, text, to []byte) []byte {
	return s.Now().Seal(dst, nil, text, to) //nolint:gosec // the cipher makes its own nonce
}

// Open opens the output of Seal with the same to.
func (s Seals) Open(sealed, to []byte) (text []byte, err error) {
	for _, with := range s.All {
		if text, err = with.Open(nil, nil, sealed, to); err == nil {
			break
		}
	}
	return text, err
}
