// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// billedRequest is the input of a simulated bill, besides the reported usage.
type billedRequest struct {
	// View is the client's request.
	View *wire.View
	// States holds the edits of its message blocks.
	States []sessioncache.BlockState
	// Start is the start of the request, by the client's own clock.
	Start time.Time
	// Rules are the rules of the upstream's cache.
	Rules *pricing.Rules
	// Calibration estimates tokens.
	Calibration *sessioncache.Calibration
	// Cache is the upstream's simulated cache for the client's own bytes.
	Cache *sessioncache.CounterfactualCache
	// Previous is the request that it continues.
	Previous previousTurn
	// Removed is the number of tokens that edits removed from the prompt.
	Removed int64
	// Markers is the number of cache markers added.
	Markers int
	// Marked reports whether a translation marks the last block in any case.
	Marked bool
	// Diverged reports whether earlier requests differed from the client's own bytes at the
	// client's own times.
	Diverged bool
	// Sent selects the edited prompt instead of the client's own.
	Sent bool
	// Marks are the markers of the edited prompt.
	Marks []wire.Edit
	// Long reports whether the client's own markers would get the long lifetime.
	Long bool
}

// previousTurn is the previous request of the same conversation.
type previousTurn struct {
	// Front is a hash of its prompt before its first message block.
	Front uint64
	// Ago is the time since its start.
	Ago time.Duration
	// Common is the number of message blocks that both requests share, 0 without a previous
	// request.
	Common int
}

// counterfactual returns the simulated usage of the client's own bytes in place of u, and stores
// their cache entries. The simulation uses the client's blocks, markers and clock. front is a hash
// of the prompt before the first message block, 0 if there is none.
func counterfactual(r billedRequest, u wire.Usage) (client wire.Usage, front uint64) {
	s := newSimulation(r)
	defer s.release()
	client = s.bill(u)
	if s.front < len(s.points) {
		front = s.points[s.front].prefix
	}
	return client, front
}

// simulation is one client request as the upstream's cache would see it.
type simulation struct {
	request billedRequest
	points  []point // one for each block in the prompt
	marks   []ask   // the entries that the client asks for, in order
	front   int     // positions of tools and system prompt
	edited  int     // positions before the first edit
	total   int64
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

var simulations = sync.Pool{New: func() any { return new(simulation) }}

func (s *simulation) release() {
	*s = simulation{points: s.points[:0], marks: s.marks[:0]}
	simulations.Put(s)
}

func newSimulation(r billedRequest) *simulation {
	v := r.View
	s := simulations.Get().(*simulation)
	s.request, s.edited = r, -1
	var weights [wire.Kinds]float64
	for k := range weights {
		weights[k] = r.Calibration.PerByte(wire.Kind(k))
	}
	stripped := int32(0)
	// Such providers drop the thinking before the last human prompt.
	if !r.Rules.KeepsThinking && r.Rules.Regime != pricing.KV {
		stripped = lastPrompt(v)
	}
	prefix, size := content.Hash(v.Model), 0.0
	for i := range v.Blocks {
		b := &v.Blocks[i]
		if i == v.System {
			s.front = len(s.points)
			prefix = mix(prefix, salt(v, r.Rules))
		}
		if b.Has(wire.FlagDeferred) || content.IsThinking(b) && b.Message < stripped {
			continue
		}
		hash, length := binary.LittleEndian.Uint64(b.Hash[:8]), b.Span.Len()
		if j := i - v.System; j >= 0 && j < len(r.States) && r.States[j].Edit != nil {
			if s.edited < 0 {
				s.edited = len(s.points)
			}
			if e := r.States[j].Edit; r.Sent {
				if e.Op == wire.OpRemove {
					continue
				}
				hash, length = xxhash.Sum64(e.Value), length+len(e.Value)-b.Body.Len()
			}
		}
		prefix = mix(prefix, hash)
		size += weights[b.Kind] * float64(length)
		s.points = append(s.points, point{prefix, size, i + 1, b.Kind})
		if !b.Marker.Empty() {
			s.marks = append(s.marks, ask{len(s.points) - 1, r.Long || content.IsLong(v.Bytes(b.Marker))})
		}
		for _, m := range r.Marks {
			if m.Block == i && b.Marker.Empty() {
				s.marks = append(s.marks, ask{len(s.points) - 1, content.IsLong(m.Value)})
			}
		}
	}
	if s.edited < 0 {
		s.edited = len(s.points)
	}
	last := len(s.points) - 1
	if r.Rules.Regime == pricing.Breakpoints && last >= 0 {
		s.marks = append(s.marks[:0], ask{at: last})
	} else if r.Marked && last >= 0 {
		s.marks = append(s.marks, ask{at: last})
	} else if !v.Caching.AutoMarker.Empty() && last >= 0 {
		s.marks = append(s.marks, ask{last, r.Long || content.IsLong(v.Bytes(v.Caching.AutoMarker))})
	}
	return s
}

// salt hashes other parameters that the upstream's cache of messages depends on.
func salt(v *wire.View, r *pricing.Rules) uint64 {
	if r.Regime == pricing.KV {
		return 0
	}
	h := uint64(0)
	choice := v.Reply.ToolChoice
	if v.Traits().NoCalls != "" {
		choice = rawjson.Span{}
	}
	for _, span := range [...]rawjson.Span{choice, v.Reply.Thinking, v.Reply.OutputConfig, v.Conversation.ContextManagement} {
		h = mix(h, xxhash.Sum64(v.Bytes(span)))
	}
	for i := range v.Blocks {
		// The presence of media is part of the key.
		if b := &v.Blocks[i]; b.Kind == wire.KindImage || b.Has(wire.FlagMedia) {
			return h + 1
		}
	}
	return h
}

// mix chains hashes.
func mix(chain, next uint64) uint64 {
	// A weak hash suffices: a client that provokes a collision only falsifies its own report.
	chain = (chain ^ next) * 0x9e3779b97f4a7c15
	return chain ^ chain>>29
}

// lastPrompt returns the index of the last human message. Some providers drop the thinking before
// it.
func lastPrompt(v *wire.View) int32 {
next:
	for m := len(v.Messages) - 1; m > 0; m-- {
		msg := &v.Messages[m]
		if msg.Role != wire.RoleUser {
			continue
		}
		for i := msg.First; i < msg.End; i++ {
			if k := v.Blocks[i].Kind; k == wire.KindToolResult || k == wire.KindProgram {
				continue next
			}
		}
		return int32(m)
	}
	return 0
}
