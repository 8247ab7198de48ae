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

package sessioncache

import (
	"slices"
	"time"
)

// Counterfactual is what an upstream's cache would hold for a session had it been sent
// the client's own bytes all along.
type Counterfactual struct {
	entries []CounterfactualEntry
}

// CounterfactualEntry is one such prefix.
type CounterfactualEntry struct {
	// Prefix is a hash of the prefix, of the model, and of what else the
	// upstream's cache depends on.
	Prefix uint64
	// Blocks is the number of blocks in it, tools and system prompt included.
	Blocks int
	// Tokens is its length.
	Tokens int64
	// At is when it was last written or read, TTL how long it lives from then
	// on, 0 for ever.
	At time.Time
	// TTL: see At.
	TTL time.Duration
}

// maxEntries bounds the prefixes of a session: four for each lineage.
const maxEntries = 4 * maxLineages

// Clone copies what has been noted.
func (s *Counterfactual) Clone() *Counterfactual {
	return &Counterfactual{slices.Clone(s.entries)}
}

// Live reports whether the entry can be found at a time.
func (e *CounterfactualEntry) Live(at time.Time) bool { return e.TTL == 0 || at.Sub(e.At) < e.TTL }

// Entries are the prefixes that have been noted, live or not.
func (s *Counterfactual) Entries() []CounterfactualEntry { return s.entries }

// Put notes a prefix that was written or read. One that lives longer keeps its
// lifetime.
func (s *Counterfactual) Put(e CounterfactualEntry) {
	oldest := 0
	for i := range s.entries {
		old := &s.entries[i]
		if old.Prefix == e.Prefix && old.Blocks == e.Blocks {
			if old.Live(e.At) && (old.TTL == 0 || old.TTL > e.TTL && e.TTL != 0) {
				e.TTL = old.TTL
			}
			*old = e
			return
		}
		if old.At.Before(s.entries[oldest].At) {
			oldest = i
		}
	}
	if len(s.entries) == maxEntries {
		s.entries[oldest] = e
		return
	}
	s.entries = append(s.entries, e)
}

// merge takes in what another process has noted.
func (s *Counterfactual) merge(other *Counterfactual) {
	for _, e := range other.entries {
		i := slices.IndexFunc(s.entries, func(o CounterfactualEntry) bool { return o.Prefix == e.Prefix && o.Blocks == e.Blocks })
		if i < 0 || e.At.After(s.entries[i].At) {
			s.Put(e)
		}
	}
}
