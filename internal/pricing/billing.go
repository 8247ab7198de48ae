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

type entries map[wire.Hash]entry

func (e entries) has(prefix wire.Hash, at time.Time) bool {
	found, ok := e[prefix]
	return ok && found.live(at)
}

func (e entries) refresh(prefix wire.Hash, at time.Time) {
	found := e[prefix]
	if until := at.Add(found.ttl); until.After(found.until) {
		found.until = until
		e[prefix] = found
	}
}

// put stores a write of a request that started at one time, visible from its answer's first byte on.
func (e entries) put(w write, started, visible time.Time) {
	// The lifetime counts from the start of the request, not from the first byte.
	n := entry{visible: visible, until: started.Add(w.ttl), ttl: w.ttl, whole: w.whole}
	// Two requests in flight may write the same prefix: the entry has the earlier beginning and the later end.
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

// bill is the usage of a request and the entries that it is going to write.
type bill struct {
	usage  wire.Usage
	writes []write
}

// breakpoint is a position at which a request asks for an entry.
type breakpoint struct {
	at   int // position in the prompt
	long bool
}

// billMarkers applies Anthropic's algorithm. Each breakpoint both reads and writes.
func (e entries) billMarkers(p *prompt, r Rules, at time.Time, bps []breakpoint) bill {
	// A prefix below the minimum is neither read nor written, and the API reports no error for it.
	for len(bps) > 0 && p.total[bps[len(bps)-1].at] < int64(r.MinTokens) {
		bps = bps[:len(bps)-1]
	}
	// Whether reading a long prefix also refreshes the shorter ones in it is not documented. Only the entry found
	// is refreshed, at the lifetime with which it was written.
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
		// One entry for each breakpoint, unless a live one is there already.
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
	// New tokens up to the last breakpoint of the long lifetime have its price, those up to the last breakpoint the
	// short one's.
	b.usage = wire.Usage{
		Read:     p.tokens(found),
		Write1h:  p.tokens(long) - p.tokens(found),
		Write5m:  p.tokens(last) - p.tokens(long),
		Uncached: p.size() - p.tokens(last),
		Reported: true,
	}
	return b
}

// lookBack returns the number of positions of the longest cached prefix.
func (e entries) lookBack(p *prompt, r Rules, at time.Time, bps []breakpoint) int {
	// From each breakpoint, the last first, LookBack positions are searched, the breakpoint's own included.
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

// billAutomatic finds the longest prefix of any request within the lifetime. Every prefix is remembered, at no
// price.
func (e entries) billAutomatic(p *prompt, r Rules, at time.Time) bill {
	var b bill
	ttl := r.Asked(p.view).TTL
	// A prefix that ends within a block is not found: the first block that differs counts as wholly new.
	read, step := int64(0), int64(1)
	if r.Provider != "gemini" {
		step = granularity
	}
	common := false // earlier requests have shown a prefix that is at least as long
	for i := len(p.chain) - 1; i >= 0 && p.total[i] >= int64(r.MinTokens); i-- {
		known := e.has(p.chain[i], at)
		// A cache of units finds ends of requests, and a prefix that two requests had in common.
		if read == 0 && known && (!r.Units || e[p.chain[i]].whole) {
			read = p.total[i] / step * step
		}
		b.writes = append(b.writes, write{p.chain[i], ttl, i == len(p.chain)-1 || known && !common})
		common = common || known
	}
	b.usage = wire.Usage{Read: read, Uncached: p.size() - read, Reported: true}
	return b
}

// billBreakpoints applies the rules of OpenAI's newer models: writing at breakpoints, at a price.
func (e entries) billBreakpoints(p *prompt, r Rules, at time.Time) bill {
	// The longest written prefix is found, however far back.
	r.LookBack = 0
	return e.billMarkers(p, r, at, openAIBreakpoints(p, r))
}

// openAIBreakpoints returns the breakpoints that count, in prompt order.
func openAIBreakpoints(p *prompt, r Rules) []breakpoint {
	v, room, long := p.view, r.Markers, p.view.Caching.Retention == "12h"
	if len(p.block) == 0 {
		return nil
	}
	var bps []breakpoint
	// The provider sets one of its own at the latest message, and it takes one of the places.
	if option(v, "prompt_cache_options", "mode") != "explicit" {
		bps = append(bps, breakpoint{len(p.block) - 1, long})
		room--
	}
	key := []byte(`"prompt_cache_breakpoint"`)
	if bytes.Contains(v.Raw, key) {
		// Beyond the limit the latest explicit ones count.
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

// option returns a string member of the request's top level, or of an object there.
func option(v *wire.View, name, inner string) string {
	// Most bodies lack the member, and a search for its name is cheaper than parsing.
	if !bytes.Contains(v.Raw, []byte(`"`+name+`"`)) {
		return ""
	}
	value := gjson.GetBytes(v.Raw, name)
	if inner != "" {
		value = value.Get(inner)
	}
	return value.Str
}
