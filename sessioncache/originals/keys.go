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

package originals

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/secret"
)

// keys are what comes of a key. They never change.
type keys struct {
	key   secret.Key
	seal  cipher.AEAD
	names []byte // the key of names
}

// mostFormer is how many keys are remembered besides the one in use.
const mostFormer = 4

func newKeys(key secret.Key) (keys, error) {
	names := key.Derive("names")
	seal, err := key.Derive("texts").Seal()
	if err != nil {
		return keys{}, fmt.Errorf("folded texts: %w", err)
	}
	return keys{key, seal, names[:]}, nil
}

// name is a keyed hash.
func (k *keys) name(values ...[]byte) []byte {
	mac := hmac.New(sha256.New, k.names)
	for _, v := range values {
		mac.Write(v)
		mac.Write([]byte{0}) // digests and names are of fixed length but one
	}
	return mac.Sum(nil)
}

// prefix is how the paths of all texts of a session begin.
func (k *keys) prefix(session string, t sessioncache.Tenant) string {
	return filepath.Join(hex.EncodeToString(k.name([]byte("tenant"), t[:])[:16]),
		hex.EncodeToString(k.name([]byte("session"), t[:], []byte(session))[:16])) + "-"
}

// path is where a text lies.
func (k *keys) path(b blockKey, t sessioncache.Tenant) string {
	return k.prefix(b.session, t) + hex.EncodeToString(k.name([]byte("text"), t[:], b.scope[:], []byte(b.name), []byte(b.session)))
}

// setKey has what is put from now on sealed under a key. What was put before is found
// under the keys of then for as long as the process remembers them. It reports whether
// the key is another one.
func (f *Files) setKey(key secret.Key) (bool, error) {
	k, err := newKeys(key)
	if err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys[0].key == key {
		return false, nil
	}
	before := slices.DeleteFunc(slices.Clone(f.keys), func(o keys) bool { return o.key == key })
	f.keys = append([]keys{k}, before[:min(len(before), mostFormer)]...)
	return true, nil
}

func (f *Files) known() []keys {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys
}
