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
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/settings"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// zones are the bounds of the middle of a conversation, in messages: what
// stands before begin is frozen, what stands from end on is hot.
type zones struct{ begin, end int }

func newZones(o *settings.Zones, v *wire.View) zones {
	if len(v.Messages) < *o.MinMessages {
		return zones{}
	}
	frozen, hot := *o.Frozen, *o.Hot
	z := zones{begin: len(v.Messages), end: len(v.Messages)}
	n := 0 // turns
	for i := 0; i < len(v.Messages) && n <= frozen; i++ {
		if turns(v, i) {
			z.begin = i
			n++
		}
	}
	for i := len(v.Messages) - 1; i >= 0 && hot > 0; i-- {
		if turns(v, i) {
			z.end = i
			hot--
		}
	}
	if n <= frozen || z.end <= z.begin {
		return zones{}
	}
	return z
}

// turns reports whether a turn begins with message i.
func turns(v *wire.View, i int) bool {
	return v.Messages[i].Role == wire.RoleAssistant && (i == 0 || v.Messages[i-1].Role != wire.RoleAssistant)
}

// middle reports whether a block stands between the frozen head and the hot tail.
func (z zones) middle(b *wire.Block) bool {
	return int(b.Message) >= z.begin && int(b.Message) < z.end
}
