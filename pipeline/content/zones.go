// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"

// Zones are the limits of the middle of a conversation, in messages: messages before Begin are
// frozen, messages from End on are hot.
type Zones struct{ Begin, End int }

// NewZones finds the middle between the frozen first turns and the hot last turns. Conversations of
// fewer than least messages have none.
func NewZones(v *wire.View, frozen, hot, least int) Zones {
	if len(v.Messages) < least {
		return Zones{}
	}
	z := Zones{Begin: len(v.Messages), End: len(v.Messages)}
	n := 0 // turns
	for i := 0; i < len(v.Messages) && n <= frozen; i++ {
		if turns(v, i) {
			z.Begin = i
			n++
		}
	}
	for i := len(v.Messages) - 1; i >= 0 && hot > 0; i-- {
		if turns(v, i) {
			z.End = i
			hot--
		}
	}
	if n <= frozen || z.End <= z.Begin {
		return Zones{}
	}
	return z
}

// turns reports whether a turn begins with message i.
func turns(v *wire.View, i int) bool {
	return v.Messages[i].Role == wire.RoleAssistant && (i == 0 || v.Messages[i-1].Role != wire.RoleAssistant)
}

// Middle reports whether a block is between the frozen head and the hot tail.
func (z Zones) Middle(b *wire.Block) bool {
	return int(b.Message) >= z.Begin && int(b.Message) < z.End
}
