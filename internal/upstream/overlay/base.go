// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// base is the beginning of a conversation: the texts of its system prompt and its tools. It is
// immutable and shared.
type base struct {
	system []pin
	tools  []tool
}

type pin struct {
	hash wire.Hash
	raw  []byte // a JSON string
	// message reports a text of a user message, not of the system prompt.
	message bool
	*surroundings
}

// size is approximate.
func (p *pin) size() int { return len(p.raw)*5/4 + 160 }

// tool is a tool definition in its first version.
type tool struct {
	name string
	hash wire.Hash // ignores the order of members
	seen wire.Hash // hash of the client's latest bytes
	raw  []byte
}

// note is a text added near the end, after the message at index at.
type note struct {
	at           int
	text         string
	surroundings []string    // the surroundings since then, nil for a note about other things
	tools        []wire.Hash // described tools
}

func (b *base) size() int {
	n := 100
	for i := range b.system {
		n += b.system[i].size()
	}
	for i := range b.tools {
		n += len(b.tools[i].raw) + len(b.tools[i].name) + 96
	}
	return n
}

func (b *base) key() string {
	sum := sha256.New()
	for i := range b.system {
		sum.Write(b.system[i].hash[:])
	}
	sum.Write([]byte{0})
	hashes := make([]wire.Hash, 0, len(b.tools))
	for i := range b.tools {
		hashes = append(hashes, b.tools[i].hash)
	}
	// Two clients may list the same tools in different orders.
	slices.SortFunc(hashes, func(a, b wire.Hash) int { return slices.Compare(a[:], b[:]) })
	for i := range hashes {
		sum.Write(hashes[i][:])
	}
	return string(sum.Sum(nil)[:16])
}

func textOf(raw []byte) string { return gjson.ParseBytes(raw).String() }

func parameters(raw []byte) string {
	root := gjson.ParseBytes(raw)
	schema := root.Get("input_schema")
	if f := root.Get("function"); f.Exists() {
		schema = f.Get("parameters")
	}
	return string(canonical([]byte(schema.Raw)))
}

// canonical returns JSON with members of objects and names of required ones in alphabetical order.
// Invalid JSON is returned unchanged.
func canonical(raw []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return raw
	}
	// Programs that keep members and names in hash tables write them in another order each time.
	sortRequired(v)
	sorted, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return sorted
}

func sortRequired(v any) {
	switch v := v.(type) {
	case map[string]any:
		if names, ok := v["required"].([]any); ok {
			slices.SortFunc(names, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		for _, member := range v {
			sortRequired(member)
		}
	case []any:
		for _, element := range v {
			sortRequired(element)
		}
	}
}

// toolsOf returns the tools of a request, with slices of its bytes. It returns false for an empty or duplicate
// name.
func toolsOf(v *wire.View, known []tool) ([]tool, bool) {
	tools, names := make([]tool, 0, v.Tools), make(map[string]struct{}, v.Tools)
	at := byName(known)
	for i := range v.Blocks[:v.Tools] {
		b := &v.Blocks[i]
		t := tool{name: v.Text(b.Name), seen: b.Hash, raw: v.Bytes(b.Span)}
		if names[t.name] = struct{}{}; t.name == "" || len(names) == i {
			return nil, false
		}
		if j, ok := at[t.name]; ok && known[j].seen == t.seen {
			// Equal bytes need no canonical form.
			t.hash = known[j].hash
		} else {
			t.hash = hashOf(canonical(t.raw))
		}
		tools = append(tools, t)
	}
	return tools, true
}

func hashOf(b []byte) wire.Hash {
	sum := sha256.Sum256(b)
	return wire.Hash(sum[:len(wire.Hash{})])
}

func byName(tools []tool) map[string]int {
	// A map, because a client may offer any number of tools.
	at := make(map[string]int, len(tools))
	for i := range tools {
		at[tools[i].name] = i
	}
	return at
}

// arrange returns the tools of the prefix: known ones in their first order, and the new ones.
func arrange(known, now []tool) (kept, added []tool) {
	// Vanished tools stay, so that the prefix stays the same.
	kept = slices.Clone(known)
	at := byName(known)
	for _, t := range now {
		i, ok := at[t.name]
		switch {
		case !ok:
			added = append(added, t)
		case kept[i].hash != t.hash && parameters(kept[i].raw) != parameters(t.raw):
			// Calls need the new parameters. A tool with only a new description keeps its first
			// definition, so that the prefix stays the same.
			kept[i] = t
		case kept[i].hash == t.hash:
			kept[i].seen = t.seen
		}
	}
	return kept, added
}

func keep(tools []tool, known []tool) []tool {
	out := slices.Clone(tools)
	at := byName(known)
	for i := range out {
		if j, ok := at[out[i].name]; ok && known[j].hash == out[i].hash {
			out[i].raw = known[j].raw
		} else {
			// A slice would keep the whole request in memory.
			out[i].raw = slices.Clone(out[i].raw)
		}
	}
	return out
}
