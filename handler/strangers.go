// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"strings"
	"sync"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
)

// MostStrangers bounds the warnings of a process and their memory, because clients choose their
// names.
const MostStrangers = 256

// Strangers are the pairs of client and reason that were warned of.
type Strangers struct {
	mu  sync.Mutex
	met map[[2]string]struct{}
}

// strangersOf returns the strangers of a state.
func strangersOf(s *state.State) *Strangers {
	return state.Part(s, func() *Strangers { return new(Strangers) })
}

// Meet reports whether a pair of client and reason is new.
func (s *Strangers) Meet(client, reason string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := [2]string{client, reason}
	if _, known := s.met[k]; known || len(s.met) >= MostStrangers {
		return false
	}
	if s.met == nil {
		s.met = make(map[[2]string]struct{})
	}
	k[0] = strings.Clone(client) // the name is a part of a header, which may be long
	s.met[k] = struct{}{}
	return true
}
