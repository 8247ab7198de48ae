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
