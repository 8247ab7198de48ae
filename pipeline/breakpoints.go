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
	"github.com/caddy-llm-cache/caddy-llm-cache/cachemodel"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/history"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// ephemeral is the marker that is set where the client has set none to copy.
var ephemeral = []byte(`{"type":"ephemeral"}`)

// breakpoints proposes markers for the free slots. The client's own stay as
// they are. The stable part (tools, system) and the settled part of the
// history are closed by markers, the volatile tail is not, except where the
// client marks nothing at all:
//
//   - a client without markers gets one behind the system prompt and one at the
//     end, once the conversation has grown (auto) or at once (on);
//   - where a policy keeps editing at a sliding edge, the settled frontier
//     before that edge is marked on every request: entries exist only where a
//     marker stood, and without one every edit would throw away all history;
//   - where a turn has added more positions than the look-back spans, the
//     previous end is marked, so that what was written there is found again.
func (f *frame) breakpoints() []wire.Edit {
	o := &f.o.Breakpoints
	if f.View.Traits().Breakpoints {
		return f.explicit()
	}
	if o.Mode == stage.Off || f.rules.Regime != cachemodel.Markers || f.rules.Markers == 0 || !f.View.Traits().Markers {
		return nil
	}
	// No prompt has more tokens than half its bytes: below the provider's
	// minimum nothing is cached, markers or not.
	if len(f.View.Raw)/2 < f.rules.MinTokens {
		return nil
	}
	marked := make([]int, 0, 8) // view indices of the client's markers
	for i := range f.View.Blocks {
		if !f.View.Blocks[i].Marker.Empty() {
			marked = append(marked, i)
		}
	}
	free := f.rules.Markers - len(marked)
	if !f.View.AutoMarker.Empty() {
		free--
	}
	var edits []wire.Edit
	place := func(i int) bool {
		i = f.markable(i)
		if free <= 0 || i < 0 || !f.View.Blocks[i].Marker.Empty() || i < f.View.System && !f.View.Thread.Empty() {
			return false
		}
		for j := range edits {
			if edits[j].Block == i {
				return false
			}
		}
		edits = append(edits, wire.Edit{Block: i, Op: wire.OpMark, Value: f.tier(marked, i)})
		free--
		return true
	}
	if len(marked) == 0 && f.View.AutoMarker.Empty() {
		if o.Mode != stage.On && f.Known == 0 {
			return nil
		}
		place(len(f.View.Blocks) - 1)
		place(f.View.System - 1)
	}
	if i := f.frontier(); i > 0 && place(f.View.System+i-1) {
		f.stake = i
	}
	if n := f.rules.LookBack; n > 0 && f.Known > 0 && f.forwarded == f.Known && f.positions(f.Known-1) > n {
		place(f.View.System + f.Known - 1)
	}
	return edits
}

// explicit proposes the one marker that OpenAI's newer models can have use for:
// they set one at the latest message themselves and find any that was ever set,
// but where a policy keeps editing at a sliding edge nothing of that is found
// again. Only messages that are not the model's can carry it, and those of a
// person stand far apart: replayed conversations gain nothing by it, so it has
// to be asked for by name.
func (f *frame) explicit() []wire.Edit {
	if f.o.Breakpoints.Mode != stage.On || !f.rules.Explicit || len(f.View.Raw)/2 < f.rules.MinTokens {
		return nil
	}
	free := f.rules.Markers - 1
	for i := range f.View.Blocks {
		if !f.View.Blocks[i].Marker.Empty() {
			free--
		}
	}
	i := f.frontier() - 1
	for i >= 0 && !f.View.Markable(&f.Blocks[i]) {
		i--
	}
	if free <= 0 || i < 0 || !f.Blocks[i].Marker.Empty() {
		return nil
	}
	f.stake = i + 1
	return []wire.Edit{{Block: f.View.System + i, Op: wire.OpMark, Value: []byte(`{"mode":"explicit"}`)}}
}

// frontier returns the number of blocks in front of which nothing changes any
// more while edits go on behind them, 0 if there is no such place: under eager
// the sliding edge of the hot zone; else the entry that a fold in this request
// builds on, or the end of what the last fold left, from where the next begins.
func (f *frame) frontier() int {
	if f.policy != Eager {
		if f.at > 0 {
			return f.at
		}
		return f.settled
	}
	if f.zones == (zones{}) {
		return 0
	}
	return f.hot()
}

// hot returns the number of blocks in front of the hot tail.
func (f *frame) hot() int {
	if f.zones == (zones{}) {
		return 0
	}
	return int(f.View.Messages[f.zones.end].First) - f.View.System
}

// positions counts the positions from a message block to the end, both
// included, as the provider does: a run of tool calls is one, and so is a run
// of tool results.
func (f *frame) positions(from int) int {
	n := 0
	last := wire.KindOther
	for i := from; i < len(f.Blocks); i++ {
		if f.Removed(i) {
			continue
		}
		k := f.Blocks[i].Kind
		if !f.rules.CollapseRuns || k != last || (k != wire.KindToolUse && k != wire.KindToolResult) {
			n++
		}
		last = k
		if w := f.States[i].Woven; w != nil {
			n += 2 * len(w.Inserts)
		}
	}
	return n
}

// markable returns the last block at or before i, in the same section, that
// may carry a marker, -1 if there is none.
func (f *frame) markable(i int) int {
	if i < 0 {
		return -1
	}
	section := f.View.Blocks[i].Section
	for ; i >= 0 && f.View.Blocks[i].Section == section; i-- {
		b := &f.View.Blocks[i]
		if section == wire.SectionMessages && f.Removed(i-f.View.System) {
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
func (f *frame) tier(marked []int, at int) []byte {
	long := f.long || history.IsLong(f.View.Bytes(f.View.AutoMarker))
	for _, m := range marked {
		long = f.long || history.IsLong(f.View.Bytes(f.View.Blocks[m].Marker))
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
