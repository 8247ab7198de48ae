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

package secret

import (
	"crypto/cipher"
	"slices"
	"sync"
)

// mostFormer is how many keys can open what they have sealed besides the one in use.
const mostFormer = 4

// Seals seal under the key in use, and open what was sealed under it or one before.
type Seals struct {
	purpose string

	mu  sync.Mutex
	all []sealing // the one in use first
}

type sealing struct {
	key Key
	cipher.AEAD
}

// NewSeals makes the seals for a purpose, with their first key.
func NewSeals(purpose string, key Key) (*Seals, error) {
	s := &Seals{purpose: purpose}
	_, err := s.Use(key)
	return s, err
}

// Use has all that follows sealed under a key. It reports whether it is another one.
func (s *Seals) Use(key Key) (other bool, err error) {
	seal, err := key.Derive(s.purpose).Seal()
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) > 0 && s.all[0].key == key {
		return false, nil
	}
	before := slices.DeleteFunc(slices.Clone(s.all), func(o sealing) bool { return o.key == key })
	s.all = append([]sealing{{key, seal}}, before[:min(len(before), mostFormer)]...)
	return true, nil
}

func (s *Seals) known() []sealing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// Overhead is how much longer what is sealed is.
func (s *Seals) Overhead() int { return s.known()[0].Overhead() }

// Seal appends a text, sealed together with what it belongs to.
func (s *Seals) Seal(dst, text, to []byte) []byte {
	return s.known()[0].Seal(dst, nil, text, to) //nolint:gosec // the cipher makes its own nonce
}

// Open opens what Seal has made.
func (s *Seals) Open(sealed, to []byte) (text []byte, err error) {
	for _, with := range s.known() {
		if text, err = with.Open(nil, nil, sealed, to); err == nil {
			return text, nil
		}
	}
	return nil, err
}
