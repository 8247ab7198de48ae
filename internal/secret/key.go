// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package secret has the keys that seal data on disks and servers.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

// Key is a key. The zero Key is no key.
type Key [32]byte

// Derive makes a key for one purpose.
func (k Key) Derive(purpose string) (out Key) {
	derived, err := hkdf.Key(sha256.New, k[:], nil, "llm_cache "+purpose, len(out))
	if err != nil {
		panic(err) // impossible for this length
	}
	copy(out[:], derived)
	return out
}

// Seal returns AES in Galois/Counter Mode under the key. The cipher makes its own nonces.
func (k Key) Seal() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k[:])
	if err != nil {
		return nil, fmt.Errorf("making a seal: %w", err)
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("making a seal: %w", err)
	}
	return seal, nil
}
