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

package pipeline

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/history"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Bill is what a turn cost, and what the client's own bytes would have cost.
type Bill struct {
	// Actual is what the upstream reported.
	Actual wire.Usage
	// Client is what it would have reported for the client's own bytes, by the
	// cache rules. Its output is that of Actual.
	Client wire.Usage
	// Cost and ClientCost are what the two cost, answers included, in units of
	// one uncached input token of the model.
	Cost, ClientCost float64
	// Dollars and ClientDollars are the same in US dollars, 0 where the prices
	// are not known.
	Dollars, ClientDollars float64
}

// Bill returns what the turn cost, whether it was committed or not. It is zero
// where the answer reported no usage.
func (x *Exchange) Bill(t *wire.Turn) Bill {
	if x.billed || t == nil || t.Usage.Prompt() == 0 {
		return x.bill
	}
	x.session.Lock()
	defer x.session.Unlock()
	x.bill, x.billed = x.charge(t.Usage), true
	return x.bill
}

// Continuations returns what each continuation of the turn cost. It is part of
// [Exchange.Bill].
func (x *Exchange) Continuations() (out []Bill) {
	for i := 1; i < len(x.said); i++ {
		b := Bill{Actual: x.said[i].Usage}
		b.Cost = x.rules.Cost(b.Actual) + x.rules.CostOutput(b.Actual)
		b.Dollars = b.Cost * x.rules.Input / 1e6
		out = append(out, b)
	}
	return out
}

// charge works the bill out and notes what the client's own bytes would have
// left in the upstream's cache. The session is locked, and the lineage is as it
// was before this request.
//
// As long as a conversation has gone out in the client's own bytes, the two
// sides of the bill are the same by definition. From the first edit or ping on the
// client's side is simulated: by the blocks of the client's requests, at its own
// markers, on its own clock. Tokens are those that the upstream reported, to
// which what was removed is added as estimated.
func (x *Exchange) charge(u wire.Usage) Bill {
	b := Bill{Actual: u, Client: u}
	if x.said != nil { // the client's own request would have been one
		u = x.first
		u.Output = b.Actual.Output
	}
	if x.view.Partial { // blocks say nothing of what the provider holds
		if l := x.match.Lineage; l != nil {
			b.Client.Read += int64(l.Less)
		}
		return x.priced(b)
	}
	s := newShadow(x)
	defer s.release()
	own := s.bill(u)
	if s.front < len(s.points) {
		x.front = s.points[s.front].prefix
	}
	if x.Edited || x.diverged() {
		b.Client = own
	}
	return x.priced(b)
}

// priced sums a bill up.
func (x *Exchange) priced(b Bill) Bill {
	r := &x.rules
	b.Cost, b.ClientCost = r.Cost(b.Actual)+r.CostOutput(b.Actual), r.Cost(b.Client)+r.CostOutput(b.Client)
	b.Dollars, b.ClientDollars = b.Cost*r.Input/1e6, b.ClientCost*r.Input/1e6
	return b
}

// diverged tells whether what went upstream before this request was other than
// the client's own bytes at the client's own times: edits, or pings that kept the
// cache warm.
func (x *Exchange) diverged() bool {
	if x.lineage != nil {
		return x.before.diverged
	}
	l := x.match.Lineage
	return l != nil && (l.Diverged || !l.Warmed.IsZero())
}

// shadow is one request of a client as the upstream's cache would see it.
type shadow struct {
	x      *Exchange
	points []point // one for each block that is in the prompt
	marks  []ask   // where the client asks for an entry, in order
	front  int     // positions of tools and system prompt
	edited int     // positions in front of the first edit of ours
	total  int64
}

// point is the end of a block.
type point struct {
	prefix uint64  // hash of the prompt up to here
	size   float64 // estimated tokens up to here
	blocks int     // blocks of the request up to here
	kind   wire.Kind
}

type ask struct {
	at   int // position
	long bool
}

var shadows = sync.Pool{New: func() any { return new(shadow) }}

func (s *shadow) release() {
	*s = shadow{points: s.points[:0], marks: s.marks[:0]}
	shadows.Put(s)
}

func newShadow(x *Exchange) *shadow {
	v, r := x.view, &x.rules
	s := shadows.Get().(*shadow)
	s.x, s.edited = x, -1
	cal := &x.session.Calibration
	var weights [wire.Kinds]float64
	for k := range weights {
		weights[k] = cal.PerByte(wire.Kind(k))
	}
	stripped := int32(0)
	if !r.KeepsThinking && r.Regime != cachemodel.KV {
		stripped = lastPrompt(v)
	}
	prefix, size := content.Hash(v.Model), 0.0
	for i := range v.Blocks {
		b := &v.Blocks[i]
		if i == v.System {
			s.front = len(s.points)
			prefix = mix(prefix, x.salt())
		}
		if b.Has(wire.FlagDeferred) || history.IsThinking(b) && b.Message < stripped {
			continue
		}
		prefix = mix(prefix, binary.LittleEndian.Uint64(b.Hash[:8]))
		size += weights[b.Kind] * float64(b.Span.Len())
		if j := i - v.System; s.edited < 0 && j >= 0 && j < len(x.states) && x.states[j].Edit != nil {
			s.edited = len(s.points)
		}
		s.points = append(s.points, point{prefix, size, i + 1, b.Kind})
		if !b.Marker.Empty() {
			s.marks = append(s.marks, ask{len(s.points) - 1, isLong(v.Bytes(b.Marker))})
		}
	}
	if s.edited < 0 {
		s.edited = len(s.points)
	}
	last := len(s.points) - 1
	if r.Regime == cachemodel.Breakpoints && last >= 0 {
		s.marks = append(s.marks[:0], ask{at: last})
	} else if !v.AutoMarker.Empty() && last >= 0 {
		s.marks = append(s.marks, ask{last, isLong(v.Bytes(v.AutoMarker))})
	}
	return s
}

// salt hashes what else the upstream's cache of messages depends on.
func (x *Exchange) salt() uint64 {
	v := x.view
	if x.rules.Regime == cachemodel.KV {
		return 0
	}
	h := uint64(0)
	for _, span := range [...]wire.Span{v.ToolChoice, v.Thinking, v.OutputConfig, v.ContextManagement} {
		h = mix(h, xxhash.Sum64(v.Bytes(span)))
	}
	for i := range v.Blocks {
		if b := &v.Blocks[i]; b.Kind == wire.KindImage || b.Has(wire.FlagMedia) {
			return h + 1
		}
	}
	return h
}

// mix chains hashes. Whoever finds a collision deceives nobody but himself.
func mix(chain, next uint64) uint64 {
	chain = (chain ^ next) * 0x9e3779b97f4a7c15
	return chain ^ chain>>29
}

// lastPrompt returns the index of the last message by a person, before which
// some providers leave thinking out.
func lastPrompt(v *wire.View) int32 {
next:
	for m := len(v.Messages) - 1; m > 0; m-- {
		msg := &v.Messages[m]
		if msg.Role != wire.RoleUser {
			continue
		}
		for i := msg.First; i < msg.End; i++ {
			if v.Blocks[i].Kind == wire.KindToolResult {
				continue next
			}
		}
		return int32(m)
	}
	return 0
}

// bill tells how the client's own bytes would have been billed in place of u,
// and notes what they would have written.
func (s *shadow) bill(u wire.Usage) wire.Usage {
	x := s.x
	s.total = u.Prompt()
	if x.SentTokens > 0 && x.Edited {
		s.total += int64(x.OriginalTokens - x.SentTokens)
	}
	if len(s.points) == 0 {
		return wire.Usage{Uncached: s.total, Output: u.Output, Reported: true}
	}
	var out wire.Usage
	switch x.rules.Regime {
	case cachemodel.Markers, cachemodel.Breakpoints:
		out = s.billMarkers(u)
	default:
		out = s.billPrefix()
	}
	out.Output, out.Reported = u.Output, true
	return out
}

// found is a prefix that is in the cache.
type found struct {
	positions int
	tokens    int64
}

// tokens is the length of the first n positions: between what is known to have
// been found and the end, in proportion to the estimates.
func (s *shadow) tokens(n int, f found) int64 {
	end := len(s.points)
	if n >= end {
		return s.total
	}
	size := func(n int) float64 {
		if n == 0 {
			return 0
		}
		return s.points[n-1].size
	}
	from, to := size(f.positions), size(end)
	rest := s.total - f.tokens
	if n < f.positions || rest <= 0 || to <= from {
		f = found{}
		from, rest = 0, s.total
	}
	return f.tokens + int64(float64(rest)*(size(n)-from)/(to-from))
}

// billMarkers reads and writes at breakpoints, as cachemodel's simulator does.
func (s *shadow) billMarkers(u wire.Usage) wire.Usage {
	x, r := s.x, &s.x.rules
	f := s.lookBack()
	// What was read in front of the first edit would have been read anyway, as
	// long as no marker of ours had a part in it.
	if x.Markers == 0 && u.Read > f.tokens && !x.diverged() && u.Read <= s.tokens(s.edited, f) {
		f.tokens = u.Read
	}
	long, last := f.tokens, f.tokens
	for _, m := range s.marks {
		end := s.tokens(m.at+1, f)
		if end < int64(r.MinTokens) {
			continue
		}
		if m.at+1 > f.positions && end > last {
			last = end
			if m.long {
				long = end
			}
		}
		if !s.has(m.at) { // an entry that is there is not written again
			s.put(m.at, end, r.Lifetime(m.long))
		}
	}
	return wire.Usage{Read: f.tokens, Write1h: long - f.tokens, Write5m: last - long, Uncached: max(s.total-last, 0)}
}

// lookBack finds the longest entry that a breakpoint of the request leads to.
func (s *shadow) lookBack() (f found) {
	r, at := &s.x.rules, s.x.start
	entries := s.x.session.Shadow.Entries()
	best := -1
	for i := range entries {
		e := &entries[i]
		n := s.position(e)
		if n <= f.positions || !e.Live(at) || !s.reached(n, r) {
			continue
		}
		f, best = found{n, min(e.Tokens, s.total)}, i
	}
	if best >= 0 {
		entries[best].At = at // found, and so refreshed
	}
	return f
}

// position returns the number of positions of an entry that is a prefix of the
// request, 0 if it is none.
func (s *shadow) position(e *sessioncache.ShadowEntry) int {
	// Blocks that are left out of the prompt stand in front.
	for n := min(e.Blocks, len(s.points)); n > 0; n-- {
		p := &s.points[n-1]
		if p.blocks == e.Blocks {
			if p.prefix == e.Prefix {
				return n
			}
			return 0
		}
		if p.blocks < e.Blocks {
			return 0
		}
	}
	return 0
}

// reached tells whether some breakpoint finds an entry of n positions.
func (s *shadow) reached(n int, r *cachemodel.Rules) bool {
	for _, m := range s.marks {
		if m.at+1 < n {
			continue
		}
		if r.LookBack == 0 || r.Regime == cachemodel.Breakpoints {
			return true
		}
		seen := 1
		for i := m.at - 1; i >= n-1 && seen <= r.LookBack; i-- {
			a, b := s.points[i].kind, s.points[i+1].kind
			if !r.CollapseRuns || a != b || a != wire.KindToolUse && a != wire.KindToolResult {
				seen++
			}
		}
		if seen <= r.LookBack {
			return true
		}
	}
	return false
}

// granularity is the step in which automatic caches report what they read.
const granularity = 128

// billPrefix reads the longest known prefix, wherever it ends: what the request
// shares with the one that it continues, or else with one of the session.
func (s *shadow) billPrefix() wire.Usage {
	x, r := s.x, &s.x.rules
	l, end := x.match.Lineage, len(s.points)
	var f found
	entries := x.session.Shadow.Entries()
	for i := range entries {
		e := &entries[i]
		if n := s.position(e); n > f.positions && e.Live(x.start) {
			f = found{n, min(e.Tokens, s.total)}
		}
	}
	if l != nil && x.match.Common > 0 && s.front < end {
		// Every prefix of the last request is known, if the front is the same.
		front := s.points[s.front].prefix
		if l.Front == front && (r.TTL == 0 || x.start.Sub(l.Started) < r.TTL) {
			n := s.front
			for n < end && s.points[n].blocks <= x.view.System+x.match.Common {
				n++
			}
			if n > f.positions {
				f = found{n, s.tokens(n, f)}
			}
		}
	}
	read := f.tokens
	if read < int64(r.MinTokens) {
		read = 0
	}
	if r.Regime == cachemodel.KV {
		read = min(read, max(s.total-1, 0))
	} else {
		read = read / granularity * granularity
	}
	ttl := r.Lifetime(false)
	if s.front > 0 {
		s.put(s.front-1, s.tokens(s.front, f), ttl)
	}
	s.put(end-1, s.total, ttl)
	return wire.Usage{Read: read, Uncached: s.total - read}
}

// has tells whether there is an entry that ends at a position.
func (s *shadow) has(at int) bool {
	p := &s.points[at]
	for i := range s.x.session.Shadow.Entries() {
		e := &s.x.session.Shadow.Entries()[i]
		if e.Prefix == p.prefix && e.Blocks == p.blocks {
			return e.Live(s.x.start)
		}
	}
	return false
}

func (s *shadow) put(at int, tokens int64, ttl time.Duration) {
	p := &s.points[at]
	s.x.session.Shadow.Put(sessioncache.ShadowEntry{Prefix: p.prefix, Blocks: p.blocks, Tokens: tokens, At: s.x.start, TTL: ttl})
}
