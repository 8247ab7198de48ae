// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"sync"
)

// MostStrangers bounds the warnings of a process, and the memory for them: names of
// clients are the clients' to choose.
const MostStrangers = 256

// Strangers are the clients and reasons that were warned of.
type Strangers struct {
	mu  sync.Mutex
	met map[[2]string]struct{}
}

// Meet reports whether a client is met with a reason for the first time.
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
	k[0] = strings.Clone(client) // a part of a header, which may be long
	s.met[k] = struct{}{}
	return true
}
