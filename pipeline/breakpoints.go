// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// ephemeral is the marker that is set where the client has set none to copy.
var ephemeral = []byte(`{"type":"ephemeral"}`)

// breakpoints proposes markers for the free slots. The client's own stay as
// they are. The stable part (tools, system) and the settled part of the
// history are closed by markers, the volatile tail is not, except where the
// client marks nothing at all:
//
//   - a client without markers gets one behind the system prompt and one at the
//     end, once the conversation has grown (auto), or at once (on, and an agent's,
//     to whose first answer there will be another request);
//   - where a policy keeps editing at a sliding edge, the settled frontier
//     before that edge is marked on every request: entries exist only where a
//     marker stood, and without one every edit would throw away all history;
//   - where a turn has added more positions than the look-back spans, the
//     previous end is marked, so that what was written there is found again.
func (r *request) breakpoints() []wire.Edit {
	o := &r.o.Breakpoints
	if r.View.Traits().Breakpoints {
		return r.explicit()
	}
	if o.Mode == stage.Off || r.rules.Regime != pricing.Markers || r.rules.Markers == 0 || !r.View.Traits().Markers {
		return nil
	}
	// No prompt has more tokens than half its bytes: below the provider's
	// minimum nothing is cached, markers or not.
	if len(r.View.Raw)/2 < r.rules.MinTokens {
		return nil
	}
	marked := make([]int, 0, 8) // view indices of the client's markers
	for i := range r.View.Blocks {
		if !r.View.Blocks[i].Marker.Empty() {
			marked = append(marked, i)
		}
	}
	free := r.rules.Markers - len(marked)
	if !r.View.Caching.AutoMarker.Empty() {
		free--
	}
	var edits []wire.Edit
	place := func(i int) bool {
		i = r.markable(i)
		if free <= 0 || i < 0 || !r.View.Blocks[i].Marker.Empty() || i < r.View.System && !r.View.Conversation.Thread.Empty() {
			return false
		}
		for j := range edits {
			if edits[j].Block == i {
				return false
			}
		}
		edits = append(edits, wire.Edit{Block: i, Op: wire.OpMark, Value: r.tier(marked, i)})
		free--
		return true
	}
	if len(marked) == 0 && r.View.Caching.AutoMarker.Empty() {
		if o.Mode != stage.On && r.Known == 0 && (!content.ServesTools(r.View) || content.Compacts(r.View)) {
			return nil
		}
		place(len(r.View.Blocks) - 1)
		place(r.View.System - 1)
	}
	if i := r.frontier(); i > 0 && place(r.View.System+i-1) {
		r.marking.stake = i
	}
	if n := r.rules.LookBack; n > 0 && r.Known > 0 && r.cached.forwarded == r.Known && r.positions(r.Known-1) > n {
		place(r.View.System + r.Known - 1)
	}
	return edits
}

// explicit proposes the one marker that OpenAI's newer models can have use for:
// they set one at the latest message themselves and find any that was ever set,
// but where a policy keeps editing at a sliding edge nothing of that is found
// again. Only messages that are not the model's can carry it, and those of a
// person stand far apart: replayed conversations gain nothing by it, so it has
// to be asked for by name.
func (r *request) explicit() []wire.Edit {
	if r.o.Breakpoints.Mode != stage.On || !r.rules.Explicit || len(r.View.Raw)/2 < r.rules.MinTokens {
		return nil
	}
	free := r.rules.Markers - 1
	for i := range r.View.Blocks {
		if !r.View.Blocks[i].Marker.Empty() {
			free--
		}
	}
	i := r.frontier() - 1
	for i >= 0 && !r.View.Markable(&r.Blocks[i]) {
		i--
	}
	if free <= 0 || i < 0 || !r.Blocks[i].Marker.Empty() {
		return nil
	}
	r.marking.stake = i + 1
	return []wire.Edit{{Block: r.View.System + i, Op: wire.OpMark, Value: []byte(`{"mode":"explicit"}`)}}
}

// frontier returns the number of blocks in front of which nothing changes any
// more while edits go on behind them, 0 if there is no such place: under eager
// the sliding edge of the hot zone; else the entry that a fold in this request
// builds on, or the end of what the last fold left, from where the next begins.
func (r *request) frontier() int {
	if r.o.Policy != Eager {
		if r.marking.at > 0 {
			return r.marking.at
		}
		return r.cached.settled
	}
	if r.zones == (content.Zones{}) {
		return 0
	}
	return r.hot()
}

// hot returns the number of blocks in front of the hot tail.
func (r *request) hot() int {
	if r.zones == (content.Zones{}) {
		return 0
	}
	return int(r.View.Messages[r.zones.End].First) - r.View.System
}

// positions counts the positions from a message block to the end, both
// included, as the provider does: a run of tool calls is one, and so is a run
// of tool results.
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

// markable returns the last block at or before i, in the same section, that
// may carry a marker, -1 if there is none.
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
		case wire.KindText, wire.KindToolUse, wire.KindToolResult, wire.KindImage, wire.KindDocument, wire.KindToolDef:
			if b.Has(wire.FlagDeferred) || (b.Kind == wire.KindText && b.Has(wire.FlagEmpty)) ||
				(section == wire.SectionMessages && b.Role == wire.RoleSystem) {
				continue
			}
			return i
		}
	}
	return -1
}

// tier returns the marker to set at a block: that of the client's next marker
// behind it, else of the last before it, so that markers of the long lifetime
// keep standing before those of the short one.
func (r *request) tier(marked []int, at int) []byte {
	long := r.marking.long || content.IsLong(r.View.Bytes(r.View.Caching.AutoMarker))
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
