// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"iter"

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
