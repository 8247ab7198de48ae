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
	"cmp"
	"maps"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// SessionReport is what an operator may see of a session: ids, counters, sizes
// and warmth, no content.
type SessionReport struct {
	// ID is the public id, as in the X-Llm-Cache header.
	ID string `json:"id"`
	// Upstream is the upstream of the session.
	Upstream string `json:"upstream"`
	// Created is when the session was first seen.
	Created time.Time `json:"created"`
	// Bytes is the memory that it holds.
	Bytes int64 `json:"bytes"`
	// Lineages are its conversations, most recently used first.
	Lineages []LineageReport `json:"lineages"`
}

// LineageReport is what an operator may see of one conversation.
type LineageReport struct {
	// ID numbers the conversations of a session.
	ID int `json:"id"`
	// Model is the model of the last request.
	Model string `json:"model"`
	// Requests counts requests that ended well.
	Requests int `json:"requests"`
	// Blocks is the number of message blocks of the last request.
	Blocks int `json:"blocks"`
	// Created is the start of the first request.
	Created time.Time `json:"created"`
	// Started is the start of the last request.
	Started time.Time `json:"started"`
	// Warmed is the start of the last ping that found the prefix cached.
	Warmed *time.Time `json:"warmed,omitempty"`
	// Pauses and Kept: see [Lineage].
	Pauses int     `json:"pauses"`
	Kept   float64 `json:"kept"`
	// TTLSeconds is the lifetime that the upstream gave the prefix, 0 if unknown.
	TTLSeconds float64 `json:"ttl_seconds"`
	// Warm reports whether the prefix is expected to be cached upstream now.
	Warm bool `json:"warm"`
	// Observed and Frozen: see [Lineage].
	Observed bool `json:"observed"`
	Frozen   bool `json:"frozen"`
	// Less is by how many tokens the last prompt was shorter than the client wrote
	// it, estimated.
	Less int `json:"less,omitempty"`
	// Decision says why the history in the last request was folded or left alone.
	Decision string `json:"decision,omitempty"`
	// Breaks counts the requests for which the upstream's cache held less than
	// expected, by reason: expired, model, tools, system, messages, edit, unknown.
	Breaks map[string]int `json:"cache_breaks,omitempty"`
	// LastBreak is the reason of the last of them.
	LastBreak string `json:"last_cache_break,omitempty"`
	// Caution is how many times dearer than planned folds have turned out lately.
	Caution float64 `json:"caution,omitempty"`
	// Expanded counts the folded blocks that the model has asked for again, by
	// the class of the tool whose text it was.
	Expanded map[string]int `json:"expanded,omitempty"`
	// Regret counts the signs that the model has missed folded text: what it asked for
	// again, read again, or did not find the place of in an edit.
	Regret int `json:"regret,omitempty"`
	// OriginalTokens and SentTokens sum up the prompts as the client sent
	// them and as they went upstream, estimated.
	OriginalTokens int64 `json:"original_tokens"`
	SentTokens     int64 `json:"sent_tokens"`
	// Last is the usage of the last request, Total that of all of them.
	Last  wire.Usage `json:"last_usage"`
	Total wire.Usage `json:"total_usage"`
	// Cost is what all requests have cost, against the client's own bytes.
	Cost Cost `json:"cost"`
	// Ledger counts the edits in force by stage, and the bytes that stand in
	// for what was edited.
	Ledger      map[string]int `json:"ledger"`
	LedgerBytes int            `json:"ledger_bytes"`
	// Unused counts prunable blocks by the number of answers in a row that
	// did not refer to them; the last entry holds all above.
	Unused []int `json:"unused"`
}

// Report returns the operator's view of the session at a moment.
func (s *Session) Report(now time.Time) SessionReport {
	s.Lock()
	defer s.Unlock()
	r := SessionReport{ID: s.id, Upstream: s.upstream, Created: s.created, Bytes: s.size(), Lineages: make([]LineageReport, 0, len(s.lineages))}
	for _, l := range s.lineages {
		r.Lineages = append(r.Lineages, l.report(now))
	}
	return r
}

// Used is when its last request began, or the last ping that kept it warm.
func (s *Session) Used() (last time.Time, warm func(now time.Time) bool) {
	s.Lock()
	defer s.Unlock()
	if len(s.lineages) == 0 {
		return s.created, func(time.Time) bool { return false }
	}
	l := s.lineages[0]
	used, ttl := l.LastUse(), cmp.Or(l.TTL, usualTTL)
	return used, func(now time.Time) bool { return now.Sub(used) <= ttl }
}

// usualTTL is taken for the lifetime of a prefix that is not known.
const usualTTL = 5 * time.Minute

func (l *Lineage) report(now time.Time) LineageReport {
	r := LineageReport{
		ID: l.id, Model: l.Model, Requests: l.Requests, Blocks: len(l.States), Created: l.Created, Started: l.Started,
		TTLSeconds: l.TTL.Seconds(), Warm: l.Warm(now, usualTTL), Observed: l.Observed, Frozen: l.Frozen, Less: l.Less, Decision: l.Decision,
		OriginalTokens: l.OriginalTokens, SentTokens: l.SentTokens, Last: l.Last, Total: l.Total, Cost: l.Cost,
		Breaks: maps.Clone(l.Breaks), LastBreak: l.Break, Caution: l.Caution,
		Ledger: map[string]int{}, Unused: make([]int, 8),
	}
	if r.Pauses, r.Kept = l.Pauses, l.Kept; !l.Warmed.IsZero() {
		warmed := l.Warmed
		r.Warmed = &warmed
	}
	for class, n := range l.Expanded {
		r.Regret += int(n)
		if n > 0 {
			if r.Expanded == nil {
				r.Expanded = make(map[string]int)
			}
			r.Expanded[Class(class).String()] = int(n)
		}
	}
	for i := range l.States {
		st := &l.States[i]
		if st.Regret {
			r.Regret++
		}
		if st.Edit != nil {
			r.Ledger[st.Edit.Stage]++
			r.LedgerBytes += len(st.Edit.Value)
		}
		if st.Trait != "" {
			r.Unused[min(int(st.Unused), len(r.Unused)-1)]++
		}
	}
	return r
}
