// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// ephemeral is the marker for clients without a marker to copy.
var ephemeral = []byte(`{"type":"ephemeral"}`)

// breakpoints sets markers in the free slots. The client's own markers stay. Markers close the
// stable part (tools, system) and the settled part of the history. The volatile tail gets none,
// unless the client sets no marker at all.
func (r *request) breakpoints() {
	o := &r.o.Breakpoints
	if r.View.Traits().Breakpoints {
		r.explicit()
		return
	}
	if o.Mode == stage.Off || r.rules.Regime != pricing.Markers || r.rules.Markers == 0 || !r.marking.possible {
		return
	}
	// A prompt has at most half as many tokens as bytes, and the provider caches nothing below its
	// minimum.
	if len(r.View.Raw)/2 < r.rules.MinTokens {
		return
	}
	marked := slices.AppendSeq(make([]int, 0, 8), r.View.Marked()) // view indices of the client's markers
	free := r.rules.Markers - len(marked)
	if !r.View.Caching.AutoMarker.Empty() {
		free--
	}
	place := func(i int) bool {
		i = r.markable(i)
		if free <= 0 || i < 0 || !r.View.Blocks[i].Marker.Empty() || i < r.View.System &&
			!r.View.Conversation.Thread.Empty() || i < r.View.Tools && r.offer.order != nil {
			return false
		}
		for j := range r.marking.added {
			if r.marking.added[j].Block == i {
				return false
			}
		}
		r.marking.added = append(r.marking.added, wire.Edit{Block: i, Op: wire.OpMark, Value: r.tier(marked, i)})
		free--
		return true
	}
	// A client without markers gets one at the end and one after the system prompt.
	if len(marked) == 0 && r.View.Caching.AutoMarker.Empty() {
		// Mode auto waits until the conversation has grown, except for agents, which always send
		// another request.
		if o.Mode != stage.On && r.Known == 0 && (!content.ServesTools(r.View) || content.Compacts(r.View)) {
			return
		}
		place(len(r.View.Blocks) - 1)
		place(r.View.System - 1)
	}
	// Entries exist only at markers. Without a marker before the sliding edge of a policy, each
	// edit would invalidate all history.
	if i := r.frontier(); i > 0 && place(r.View.System+i-1) {
		r.marking.stake = i
	}
	// After a turn longer than the look-back, only a marker at the previous end finds its entry.
	if n := r.rules.LookBack; n > 0 && r.Known > 0 && r.cached.forwarded == r.Known && r.positions(r.Known-1) > n {
		place(r.View.System + r.Known - 1)
	}
}

// explicit sets the one marker that helps with OpenAI's newer models. They set a marker at the
// latest message themselves, and find every earlier one.
func (r *request) explicit() {
	// Edits at a sliding edge invalidate those entries. Only messages of the client can carry a
	// marker, and human messages are far apart. Replayed conversations gain nothing by it, so auto
	// does not set it.
	if r.o.Breakpoints.Mode != stage.On || !r.rules.Explicit || len(r.View.Raw)/2 < r.rules.MinTokens {
		return
	}
	free := r.rules.Markers - 1
	for range r.View.Marked() {
		free--
	}
	i := r.frontier() - 1
	for i >= 0 && !r.View.Markable(&r.Blocks[i]) {
		i--
	}
	if free <= 0 || i < 0 || !r.Blocks[i].Marker.Empty() {
		return
	}
	r.marking.stake = i + 1
	r.marking.added = []wire.Edit{{Block: r.View.System + i, Op: wire.OpMark, Value: []byte(`{"mode":"explicit"}`)}}
}

// frontier returns the number of blocks before the point from which edits go on, 0 if there is
// none.
func (r *request) frontier() int {
	if r.o.Policy != Eager {
		// The entry that a fold in this request builds on, or else the end of the last fold.
		if r.marking.at > 0 {
			return r.marking.at
		}
		return r.cached.settled
	}
	// Eager edits at the sliding edge of the hot zone.
	if r.zones == (content.Zones{}) {
		return 0
	}
	return r.hot()
}

// hot returns the number of blocks before the hot tail.
func (r *request) hot() int {
	if r.zones == (content.Zones{}) {
		return 0
	}
	return int(r.View.Messages[r.zones.End].First) - r.View.System
}

// positions counts the positions from a message block to the end, both included. As for the
// provider, a run of tool calls or of tool results is one position.
func (r *request) positions(from int) int {
	n := 0
	last := wire.KindOther
	for i := from; i < len(r.Blocks); i++ {
		if r.Removed(i) {
			continue
		}
		k := r.Blocks[i].Kind
		if !r.rules.CollapseRuns || k != last || !k.Collapses() {
			n++
		}
		last = k
		if w := r.States[i].Inserted; w != nil {
			n += 2 * len(w.Inserts)
		}
	}
	return n
}

// markable returns the last block at or before i in the same section that may carry a marker, -1 if
// there is none.
func (r *request) markable(i int) int {
	if i < 0 {
		return -1
	}
	section := r.View.Blocks[i].Section
	for ; i >= 0 && r.View.Blocks[i].Section == section; i-- {
		b := &r.View.Blocks[i]
		if section == wire.SectionMessages && r.Removed(i-r.View.System) {
			continue
		}
		switch b.Kind {
		case wire.KindText:
			if b.Has(wire.FlagEmpty) || section == wire.SectionMessages && b.Role == wire.RoleSystem && r.View.Traits().Markers {
				continue
			}
			return i
		case wire.KindToolUse, wire.KindToolResult, wire.KindImage, wire.KindDocument, wire.KindToolDef:
			// Chat completions have parts for texts only.
			if b.Has(wire.FlagDeferred) || !r.View.Traits().Markers || section == wire.SectionMessages &&
				b.Role == wire.RoleSystem {
				continue
			}
			return i
		}
	}
	return -1
}

// tier returns the marker for a block. It copies the lifetime of the client's next marker after the
// block, or else of the last one before it.
func (r *request) tier(marked []int, at int) []byte {
	long := r.marking.long || content.IsLong(r.View.Bytes(r.View.Caching.AutoMarker))
	// Providers require markers of the long lifetime before those of the short one.
	for _, m := range marked {
		long = r.marking.long || content.IsLong(r.View.Bytes(r.View.Blocks[m].Marker))
		if m > at {
			break
		}
	}
	return marker(long)
}

func marker(long bool) []byte {
	if long {
		return []byte(`{"type":"ephemeral","ttl":"1h"}`)
	}
	return ephemeral
}

// lengthen gives the client's markers the long lifetime, if the session wants it and the client names
// none.
func (r *request) lengthen() {
	wanted, l := r.session.Lifetime, r.match.Conversation
	if wanted == sessioncache.LifetimeAsked || r.rules.Regime != pricing.Markers || r.rules.LongTTL == 0 ||
		!r.View.Traits().Markers || !r.View.OffersTools() || !r.View.Conversation.Thread.Empty() || chosen(r.View) {
		return
	}
	// The long lifetime is paid with the write. So a conversation changes only without a live
	// cache, and then keeps its lifetime.
	r.marking.long = l != nil && l.TTL == r.rules.LongTTL && !r.cached.cold ||
		wanted == sessioncache.LifetimeLong && (r.cached.cold || l == nil && r.cached.forwarded == 0)
}

// chosen reports whether the client names a lifetime, or sets no marker.
func chosen(v *wire.View) bool {
	open := false
	names := func(marker []byte) bool {
		open = open || len(marker) > 0
		return bytes.Contains(marker, []byte(`"ttl"`))
	}
	for i := range v.Marked() {
		if names(v.Bytes(v.Blocks[i].Marker)) {
			return true
		}
	}
	return names(v.Bytes(v.Caching.AutoMarker)) || !open
}

var longTTL = wire.Member{Name: "ttl", Value: []byte(`"1h"`)}

// lengthened appends the edits that give the client's own markers the long lifetime.
func (r *request) lengthened(edits []wire.Edit) []wire.Edit {
	for i := range r.View.Marked() {
		if i >= r.View.System && r.Removed(i-r.View.System) {
			continue
		}
		if value, err := wire.Patch(r.View.Bytes(r.View.Blocks[i].Marker), longTTL); err == nil {
			edits = append(edits, wire.Edit{Block: i, Op: wire.OpMark, Value: value})
		}
	}
	return edits
}

// lengthenAuto gives the marker of the whole request the long lifetime.
func (r *request) lengthenAuto(body *wire.Body) (*wire.Body, error) {
	if r.View.Caching.AutoMarker.Empty() {
		return body, nil
	}
	value, err := wire.Patch(r.View.Bytes(r.View.Caching.AutoMarker), longTTL)
	if err != nil {
		return nil, err
	}
	return patched(body, wire.Member{Name: "cache_control", Value: value})
}
