// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"testing"
)

// Existing files have the nonce before the sealed text.
func TestSealForm(t *testing.T) {
	key := Key{1}.Derive("a test")
	block, err := aes.NewCipher(key[:])
	if err != nil {
		t.Fatal(err)
	}
	plain, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := bytes.Repeat([]byte{7}, plain.NonceSize())
	old := plain.Seal(bytes.Clone(nonce), nonce, []byte("text"), []byte("name"))
	seal, err := key.Seal()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := seal.Open(nil, nil, old, []byte("name")); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if a, b := seal.Seal(nil, nil, []byte("text"), nil), seal.Seal(nil, nil, []byte("text"), nil); bytes.Equal(a, b) {
		t.Error("two texts alike look alike")
	}
	for _, other := range []Key{{1}, {2}, Key{2}.Derive("a test"), Key{1}.Derive("another")} {
		if other == key {
			t.Errorf("%x is no key of its own", other)
		}
	}
}
