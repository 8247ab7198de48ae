// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package originals

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// keys are derived from one operator key. They never change.
type keys struct {
	seal  cipher.AEAD
	names []byte // the key of names
}

func newKeys(key secret.Key) (*keys, error) {
	names := key.Derive("names")
	seal, err := key.Derive("texts").Seal()
	if err != nil {
		return nil, fmt.Errorf("folded texts: %w", err)
	}
	return &keys{seal, names[:]}, nil
}

// name returns a keyed hash of some values.
func (k *keys) name(values ...[]byte) []byte {
	mac := hmac.New(sha256.New, k.names)
	for _, v := range values {
		mac.Write(v)
		mac.Write([]byte{0}) // unambiguous, since all values but one have a fixed length
	}
	return mac.Sum(nil)
}

// prefix returns the common beginning of the paths of a session's texts.
func (k *keys) prefix(session sessioncache.Digest, t sessioncache.Tenant) string {
	return filepath.Join(hex.EncodeToString(k.name([]byte("tenant"), t[:])[:16]),
		hex.EncodeToString(k.name([]byte("session"), t[:], session[:])[:16])) + "-"
}

// path returns the path of a text in the folder.
func (k *keys) path(b blockKey, t sessioncache.Tenant) string {
	return k.prefix(b.session, t) + hex.EncodeToString(k.name([]byte("text"), t[:], b.scope[:], []byte(b.name),
		b.session[:]))
}
