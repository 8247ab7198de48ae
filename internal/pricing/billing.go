// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"bytes"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// entry is one prefix in a cache.
type entry struct {
	visible, until time.Time
	ttl            time.Duration
	whole          bool // a unit of a cache that has units
}

func (e entry) live(at time.Time) bool { return !at.Before(e.visible) && at.Before(e.until) }

// write is an entry to come.
type write struct {
	prefix wire.Hash
	ttl    time.Duration
	whole  bool
}

// entries are the prefixes in a cache, by their hashes.
type entries map[wire.Hash]entry

func (e entries) has(prefix wire.Hash, at time.Time) bool {
	found, ok := e[prefix]
	return ok && found.live(at)
}

// refresh lets an entry live for another lifetime of its own.
func (e entries) refresh(prefix wire.Hash, at time.Time) {
	found := e[prefix]
	if until := at.Add(found.ttl); until.After(found.until) {
		found.until = until
		e[prefix] = found
	}
}

// put enters what a request that started at one time has written, once the
// answer's first byte has come at another.
func (e entries) put(w write, started, visible time.Time) {
	n := entry{visible: visible, until: started.Add(w.ttl), ttl: w.ttl, whole: w.whole}
	if old, ok := e[w.prefix]; ok && old.live(visible) {
		n.whole = n.whole || old.whole
		if old.visible.Before(n.visible) {
			n.visible = old.visible
		}
		if old.until.After(n.until) {
			n.until, n.ttl = old.until, old.ttl
		}
	}
	e[w.prefix] = n
}

// bill is what a request costs and what it is going to write.
type bill struct {
	usage  wire.Usage
	writes []write
}

// breakpoint is a position at which a request asks for an entry.
type breakpoint struct {
	at   int // position in the prompt
	long bool
}

// billMarkers applies Anthropic's algorithm. Reading: from each breakpoint, the
// last first, LookBack positions are searched for an entry. Writing: one entry
// for each breakpoint, where the whole prefix is long enough and none lives
// there. What is new up to the last breakpoint is billed as written: up to the
// last one of the long lifetime at that price, the rest at the other.
//
// Whether reading a long prefix also refreshes the shorter ones in it is not
// documented; only the entry found is refreshed here, at the lifetime with which
// it was written.
func (e entries) billMarkers(p *prompt, r Rules, at time.Time, bps []breakpoint) bill {
	for len(bps) > 0 && p.total[bps[len(bps)-1].at] < int64(r.MinTokens) {
		bps = bps[:len(bps)-1]
	}
	found := e.lookBack(p, r, at, bps)
	if found > 0 {
		e.refresh(p.chain[found-1], at)
	}
	var b bill
	long, last := found, found
	for _, bp := range bps {
		if p.total[bp.at] < int64(r.MinTokens) {
			continue
		}
		if !e.has(p.chain[bp.at], at) {
			b.writes = append(b.writes, write{p.chain[bp.at], r.Lifetime(bp.long), true})
		}
		if end := bp.at + 1; end > last {
			last = end
			if bp.long {
				long = end
			}
		}
	}
	b.usage = wire.Usage{
		Read:     p.tokens(found),
		Write1h:  p.tokens(long) - p.tokens(found),
		Write5m:  p.tokens(last) - p.tokens(long),
		Uncached: p.size() - p.tokens(last),
		Reported: true,
	}
	return b
}

// lookBack returns the number of positions of the longest prefix that is found.
func (e entries) lookBack(p *prompt, r Rules, at time.Time, bps []breakpoint) int {
	for _, bp := range slices.Backward(bps) {
		seen := 1
		for i := bp.at; i >= 0; i-- {
			if i < bp.at && (!r.CollapseRuns || !p.sameRun(i)) {
				seen++
			}
			if r.LookBack > 0 && seen > r.LookBack {
				break
			}
			if e.has(p.chain[i], at) {
				return i + 1
			}
		}
	}
	return 0
}

// granularity is the step in which OpenAI's older models report cached tokens.
// Of Gemini none is known.
const granularity = 128

// billAutomatic finds the longest prefix that any request has shown within the
// lifetime. Every prefix is remembered, at no price. A prefix that ends within a
// block is not found: the first block that differs counts as wholly new. A cache of
// units finds ends of requests, and a prefix that two requests had in common.
func (e entries) billAutomatic(p *prompt, r Rules, at time.Time) bill {
	var b bill
	ttl := r.Asked(p.view).TTL
	read, step := int64(0), int64(1)
	if r.Provider != "gemini" {
		step = granularity
	}
	common := false // earlier requests have shown a prefix that is at least as long
	for i := len(p.chain) - 1; i >= 0 && p.total[i] >= int64(r.MinTokens); i-- {
		known := e.has(p.chain[i], at)
		if read == 0 && known && (!r.Units || e[p.chain[i]].whole) {
			read = p.total[i] / step * step
		}
		b.writes = append(b.writes, write{p.chain[i], ttl, i == len(p.chain)-1 || known && !common})
		common = common || known
	}
	b.usage = wire.Usage{Read: read, Uncached: p.size() - read, Reported: true}
	return b
}

// billBreakpoints applies the rules of OpenAI's newer models: writing at
// breakpoints, at a price; reading the longest prefix that was written, however
// far back.
func (e entries) billBreakpoints(p *prompt, r Rules, at time.Time) bill {
	r.LookBack = 0
	return e.billMarkers(p, r, at, openAIBreakpoints(p, r))
}

// openAIBreakpoints returns the breakpoints that count: the one at the latest
// message, unless prompt_cache_options asks for explicit ones only, and the
// latest explicit ones as far as there is room.
func openAIBreakpoints(p *prompt, r Rules) []breakpoint {
	v, room, long := p.view, r.Markers, p.view.Caching.Retention == "12h"
	if len(p.block) == 0 {
		return nil
	}
	var bps []breakpoint
	if option(v, "prompt_cache_options", "mode") != "explicit" {
		bps = append(bps, breakpoint{len(p.block) - 1, long})
		room--
	}
	key := []byte(`"prompt_cache_breakpoint"`)
	if bytes.Contains(v.Raw, key) {
		for i := len(p.block) - 1; i >= 0 && room > 0; i-- {
			s := v.Blocks[p.block[i]].Span.Of(v.Raw)
			if bytes.Contains(s, key) && gjson.GetBytes(s, "prompt_cache_breakpoint").IsObject() {
				bps = append(bps, breakpoint{i, long})
				room--
			}
		}
	}
	slices.Reverse(bps)
	return bps
}

// option returns a string member of the request's top level, or of an object
// there. The body is searched for the name first, since most do not hold it.
func option(v *wire.View, name, inner string) string {
	if !bytes.Contains(v.Raw, []byte(`"`+name+`"`)) {
		return ""
	}
	value := gjson.GetBytes(v.Raw, name)
	if inner != "" {
		value = value.Get(inner)
	}
	return value.Str
}
