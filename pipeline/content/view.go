// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"iter"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// ServesTools reports whether the tools look like a coding agent's.
func ServesTools(v *wire.View) bool {
	for i := range Definitions(v) {
		b := &v.Blocks[i]
		if works(v.Text(b.Name)) {
			return true
		}
		if b.Section != wire.SectionMessages {
			continue
		}
		found := false
		gjson.GetBytes(v.Bytes(b.Span), "tools").ForEach(func(_, tool gjson.Result) bool { // a namespace
			found = works(tool.Get("name").Str)
			return !found
		})
		if found {
			return true
		}
	}
	return false
}

func works(tool string) bool {
	switch ClassOf(tool) {
	case sessioncache.ClassRead, sessioncache.ClassCommand, sessioncache.ClassEdit:
		return true
	}
	return false
}

// Definitions yields the blocks of the tool definitions, by their indices.
func Definitions(v *wire.View) iter.Seq[int] {
	return func(yield func(int) bool) {
		first, end := toolRange(v)
		for i := first; i < end; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

func toolRange(v *wire.View) (first, end int) {
	// Some clients of the Responses API have no list of tools, but definitions in a first message.
	if v.Tools > 0 || !v.Traits().FlatItems {
		return 0, v.Tools
	}
	for i := range v.Messages {
		m := &v.Messages[i]
		// Definitions come before all responses.
		if m.Role == wire.RoleAssistant {
			break
		}
		if m.First < m.End && v.Blocks[m.First].Kind == wire.KindToolDef {
			return int(m.First), int(m.End)
		}
	}
	return 0, 0
}

// OfferedTool returns the number of tools in a definition: one, or with flat the tools of a
// namespace of the Responses API.
func OfferedTool(v *wire.View, i int, flat bool) int {
	if flat && v.Traits().FlatItems {
		if n := gjson.GetBytes(v.Bytes(v.Blocks[i].Span), "tools.#").Int(); n > 0 {
			return int(n)
		}
	}
	return 1
}

// LastDefinition returns the block of the last tool that another definition can follow, -1 if there
// is none.
func LastDefinition(v *wire.View) int {
	first, end := toolRange(v)
	for i := end - 1; i >= first; i-- {
		// In some formats, tools run by the provider are not part of the list.
		if !v.Traits().HostedUnlisted || !v.Blocks[i].Name.Empty() {
			return i
		}
	}
	return -1
}

// Compacts reports whether the request asks for a summary of the conversation, to continue in a new
// one.
func Compacts(v *wire.View) bool {
	blocks := v.MessageBlocks()
	for i := len(blocks) - 1; i >= 0 && blocks[i].Role == wire.RoleUser; i-- {
		switch b := &blocks[i]; {
		case b.Kind == wire.KindText && asksForSummary(string(v.Bytes(b.Body))):
			return true
		case b.Kind == wire.KindOther && gjson.GetBytes(v.Bytes(b.Span), "type").Str == "compaction_trigger":
			return true
		}
	}
	return false
}

// summons are the beginnings of coding agents' requests for a summary.
var summons = []string{
	"CRITICAL: Respond with TEXT ONLY", "You are performing a CONTEXT CHECKPOINT COMPACTION", "Your task is to create a detailed summary of the conversation",
	"First, reason in your scratchpad. Then, generate the <state_snapshot>",
}

func asksForSummary(body string) bool {
	for _, s := range summons {
		if strings.Contains(body[:min(len(body), 400)], s) {
			return true
		}
	}
	return false
}

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

// AnswersTool reports whether a message answers a call. Such a message begins no task.
func AnswersTool(v *wire.View, m *wire.Message) bool {
	for i := m.First; i < m.End; i++ {
		switch v.Blocks[i].Kind {
		case wire.KindToolResult, wire.KindServerTool, wire.KindProgram:
			return true
		}
	}
	return false
}

// LongMarker reports whether the client asks for the long cache lifetime.
func LongMarker(v *wire.View) bool {
	for i := range v.Blocks {
		if m := v.Blocks[i].Marker; !m.Empty() && IsLong(v.Bytes(m)) {
			return true
		}
	}
	return IsLong(v.Bytes(v.Caching.AutoMarker))
}

// IsLong reports whether a cache marker asks for the long lifetime.
func IsLong(marker []byte) bool { return bytes.Contains(marker, []byte(`"1h"`)) }
