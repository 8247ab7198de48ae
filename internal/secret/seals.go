// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import "crypto/cipher"

// Seals seal under the key in use, and open what was sealed under it or one before.
type Seals struct{ *Ring[cipher.AEAD] }

// NewSeals makes the seals for a purpose, with their first key.
func NewSeals(purpose string, key Key) (Seals, error) {
	r, err := NewRing(func(k Key) (cipher.AEAD, error) { return k.Derive(purpose).Seal() }, key)
	return Seals{r}, err
}

// Overhead is how much longer what is sealed is.
func (s Seals) Overhead() int { return s.Now().Overhead() }

// Seal appends a text, sealed together with what it belongs to.
func (s Seals) Seal(dst, text, to []byte) []byte {
	return s.Now().Seal(dst, nil, text, to) //nolint:gosec // the cipher makes its own nonce
}

// Open opens what Seal has made.
func (s Seals) Open(sealed, to []byte) (text []byte, err error) {
	for _, with := range s.All {
		if text, err = with.Open(nil, nil, sealed, to); err == nil {
			break
		}
	}
	return text, err
}
