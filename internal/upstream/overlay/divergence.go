// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Cause is the reason why a prompt does not continue the previous one.
type Cause string

// The causes.
const (
	CauseToolOrder   Cause = "tool_order"
	CauseToolAdded   Cause = "tool_added"
	CauseToolRemoved Cause = "tool_removed"
	CauseToolChanged Cause = "tool_changed"
	CauseSystem      Cause = "system_changed"
	CauseOpening     Cause = "first_message"
	CauseAnswer      Cause = "answer_rewritten"
	CauseHistory     Cause = "history_rewritten"
	CauseShorter     Cause = "history_cut"
	CauseBranch      Cause = "branch"
	// CauseEvicted: the prompt continues the previous one, but the upstream had evicted it.
	CauseEvicted Cause = "evicted"
)

const maxDivergences = 8

// Divergence is the point at which a prompt differs from the previous one.
type Divergence struct {
	// At is the time of the request.
	At time.Time `json:"at"`
	// Cause is the reason.
	Cause Cause `json:"cause"`
	// Block is the number of tools, system texts and messages before the point, Of their number in
	// the previous prompt.
	Block int `json:"block"`
	Of    int `json:"of"`
	// Section is the section of the point: tools, system or messages.
	Section string `json:"section"`
	// Lost is the share of the previous prompt that has to be read again.
	Lost float64 `json:"lost"`
}

type piece struct {
	hash    uint64
	size    int32
	section wire.Section
	role    wire.Role
}

func piecesOf(v *wire.View, markers bool) []piece {
	all := make([]piece, 0, v.System+len(v.Messages))
	add := func(span rawjson.Span, hash uint64, section wire.Section, role wire.Role) {
		all = append(all, piece{hash, int32(span.Len()), section, role})
	}
	for i := range v.Blocks[:v.System] {
		b := &v.Blocks[i]
		var hash uint64
		if markers {
			hash = hashBlocks(v.Blocks[i : i+1])
		} else {
			hash = maphash.Bytes(seed, unmarked(v, b))
		}
		add(b.Span, hash, b.Section, wire.RoleNone)
	}
	hashes := v.Known().Messages()
	leading := v.Traits().SystemInMessages
	for i := range v.Messages {
		m := &v.Messages[i]
		section := wire.SectionMessages
		if leading = leading && m.Role == wire.RoleSystem; leading {
			section = wire.SectionSystem
		}
		hash, blocks := hashes[i], v.Blocks[m.First:m.End]
		switch {
		case markers:
			hash = hashBlocks(blocks)
		case slices.ContainsFunc(blocks, func(b wire.Block) bool { return !b.Marker.Empty() }):
			hash = wire.HashMessage(unmarkedMessage(v, m))
		}
		add(m.Span, hash, section, m.Role)
	}
	return all
}

// unmarkedMessage returns the bytes of a message without markers, which do not reach the upstream.
func unmarkedMessage(v *wire.View, m *wire.Message) (raw []byte) {
	at := m.Span.Start
	for i := m.First; i < m.End; i++ {
		b := &v.Blocks[i]
		raw = append(raw, v.Raw[at:b.Span.Start]...)
		raw, at = append(raw, unmarked(v, b)...), b.Span.End
	}
	return append(raw, v.Raw[at:m.Span.End]...)
}

func unmarked(v *wire.View, b *wire.Block) []byte {
	raw := v.Bytes(b.Span)
	if b.Marker.Empty() {
		return raw
	}
	without, err := wire.Patch(raw, wire.Member{Name: "cache_control"})
	if err != nil {
		return raw
	}
	return without
}

// hashBlocks returns a hash that ignores markers, as a moved marker is no divergence.
func hashBlocks(blocks []wire.Block) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for i := range blocks {
		_, _ = h.Write(blocks[i].Hash[:])
	}
	return h.Sum64()
}

func (x *Transaction) compare() {
	total := 0
	for _, p := range x.next.sent {
		total += int(p.size)
	}
	if x.before == nil || total == 0 {
		return
	}
	was, is := x.before.sent, x.next.sent
	n, common, lost := 0, 0, 0
	for n < min(len(was), len(is)) && was[n].hash == is[n].hash && was[n].section == is[n].section {
		common += int(is[n].size)
		n++
	}
	if n == len(was) {
		if n < len(is) && is[n].role == wire.RoleAssistant { // the unchanged answer
			common += int(is[n].size)
		}
		x.Common = float64(common) / float64(total)
		return
	}
	x.Common = float64(common) / float64(total)
	before := 0
	for i, p := range was {
		before += int(p.size)
		if i >= n {
			lost += int(p.size)
		}
	}
	x.Divergence = &Divergence{
		At: x.at, Cause: x.cause(n), Block: n, Of: len(was), Section: sectionNames[was[n].section],
		Lost: float64(lost) / float64(max(before, 1)),
	}
}

var sectionNames = [...]string{
	wire.SectionTools: "tools", wire.SectionSystem: "system", wire.SectionMessages: "messages",
}

func (x *Transaction) cause(n int) Cause {
	was, is := x.before.sent, x.next.sent
	switch {
	case was[n].section == wire.SectionTools || n < len(is) && is[n].section == wire.SectionTools:
		return toolCause(was, is)
	case was[n].section == wire.SectionSystem:
		return CauseSystem
	// Another branch of the session was the closest match.
	case x.replaces == nil:
		return CauseBranch
	case n == len(is):
		return CauseShorter
	case was[n].section != wire.SectionMessages || n == 0 || was[n-1].section != wire.SectionMessages:
		return CauseOpening
	case was[n].role == wire.RoleAssistant:
		return CauseAnswer
	}
	return CauseHistory
}

func toolCause(was, is []piece) Cause {
	before, now := map[uint64]int{}, map[uint64]int{}
	for _, p := range was {
		if p.section == wire.SectionTools {
			before[p.hash]++
		}
	}
	gone, added := 0, 0
	for _, p := range is {
		if p.section == wire.SectionTools {
			now[p.hash]++
			if before[p.hash] == 0 {
				added++
			}
		}
	}
	for h := range before {
		if now[h] == 0 {
			gone++
		}
	}
	switch {
	case gone > 0 && added > 0:
		return CauseToolChanged
	case added > 0:
		return CauseToolAdded
	case gone > 0:
		return CauseToolRemoved
	}
	return CauseToolOrder
}
