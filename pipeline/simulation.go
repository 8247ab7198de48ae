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

// billedRequest is what the client's side of a bill depends on, besides the usage that
// the upstream reported.
type billedRequest struct {
	// View is the client's request.
	View *wire.View
	// States is what is remembered of its message blocks: the edits of them.
	States []sessioncache.BlockState
	// Start is when it began, by the client's own clock.
	Start time.Time
	// Rules are those of the upstream's cache.
	Rules *pricing.Rules
	// Calibration estimates tokens.
	Calibration *sessioncache.Calibration
	// Cache is what the upstream would hold of the client's own bytes.
	Cache *sessioncache.CounterfactualCache
	// previousTurn is the request that it continues.
	Previous previousTurn
	// Removed is the number of tokens that edits have taken out of the prompt.
	Removed int64
	// Markers is the number of cache markers put in.
	Markers int
	// Marked reports whether a translation has the provider mark the last block, whatever
	// else is done to the request.
	Marked bool
	// Diverged reports whether what went upstream before was other than the
	// client's own bytes at the client's own times.
	Diverged bool
	// Sent asks for the prompt as the edits would make it, in place of the
	// client's own.
	Sent bool
	// Marks are the markers that would be put in then, and Long reports whether the
	// client's own would get the long lifetime.
	Marks []wire.Edit
	// Long: see Marks.
	Long bool
}

// previousTurn is the request before in the same conversation.
type previousTurn struct {
	// Front is a hash of its prompt up to its first message block.
	Front uint64
	// Ago is how long before this one it began.
	Ago time.Duration
	// Common is the number of message blocks that stood in it too, 0 if there was
	// none.
	Common int
}

// counterfactual returns the usage that the upstream would have reported for the
// client's own bytes in place of u, and notes what they would have left in its
// cache. Front is a hash of the prompt up to its first message block, 0 if there
// is none.
//
// The client's side is simulated: by the blocks of the client's requests, at its
// own markers, on its own clock. Tokens are those that the upstream reported, to
// which what was removed is added as estimated.
func counterfactual(r billedRequest, u wire.Usage) (client wire.Usage, front uint64) {
	s := newSimulation(r)
	defer s.release()
	client = s.bill(u)
	if s.front < len(s.points) {
		front = s.points[s.front].prefix
	}
	return client, front
}

// simulation is one request of a client as the upstream's cache would see it.
type simulation struct {
	request billedRequest
	points  []point // one for each block that is in the prompt
	marks   []ask   // where the client asks for an entry, in order
	front   int     // positions of tools and system prompt
	edited  int     // positions in front of the first edit of ours
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

// salt hashes what else the upstream's cache of messages depends on.
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
			if k := v.Blocks[i].Kind; k == wire.KindToolResult || k == wire.KindProgram {
				continue next
			}
		}
		return int32(m)
	}
	return 0
}
