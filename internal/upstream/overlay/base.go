// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"crypto/sha256"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// base is what a conversation began with: the texts of its system prompt and its
// tools. It is immutable and shared.
type base struct {
	system []pin
	tools  []tool
}

// pin is a text as it first stood.
type pin struct {
	hash wire.Hash
	raw  []byte // a JSON string
}

// tool is a definition as it first stood.
type tool struct {
	name string
	hash wire.Hash
	raw  []byte
}

// note is what was told near the end, behind the message at its index.
type note struct {
	at    int
	text  string
	told  []string    // what the surroundings are since, nil if it is not about them
	tools []wire.Hash // described
}

// size is about how much memory the base holds, in bytes.
func (b *base) size() int {
	n := 100
	for i := range b.system {
		n += len(b.system[i].raw) + 48
	}
	for i := range b.tools {
		n += len(b.tools[i].raw) + len(b.tools[i].name) + 72
	}
	return n
}

// key tells bases apart, whatever the order of their tools.
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
	slices.SortFunc(hashes, func(a, b wire.Hash) int { return slices.Compare(a[:], b[:]) })
	for i := range hashes {
		sum.Write(hashes[i][:])
	}
	return string(sum.Sum(nil)[:16])
}

// textOf decodes a JSON string.
func textOf(raw []byte) string { return gjson.ParseBytes(raw).String() }

// parameters returns what a caller must know of a tool, without its description.
func parameters(raw []byte) string {
	root := gjson.ParseBytes(raw)
	if f := root.Get("function"); f.Exists() {
		return f.Get("parameters").Raw
	}
	return root.Get("input_schema").Raw
}

// toolsOf copies the tools of a request. It returns false where a name stands twice.
func toolsOf(v *wire.View) ([]tool, bool) {
	tools, seen := make([]tool, 0, v.Tools), make(map[string]struct{}, v.Tools)
	for i := range v.Blocks[:v.Tools] {
		b := &v.Blocks[i]
		t := tool{name: v.Text(b.Name), hash: b.Hash, raw: v.Bytes(b.Span)}
		if seen[t.name] = struct{}{}; t.name == "" || len(seen) == i {
			return nil, false
		}
		tools = append(tools, t)
	}
	return tools, true
}

// byName tells where tools stand. A client may offer as many as it likes.
func byName(tools []tool) map[string]int {
	at := make(map[string]int, len(tools))
	for i := range tools {
		at[tools[i].name] = i
	}
	return at
}

// arrange returns the tools of the prefix: those known in the order in which they
// were first seen, then new ones. Those that have vanished stay; a definition
// that only describes itself otherwise stays as it was, one that takes other
// arguments is replaced in its place.
func arrange(known, now []tool) (front, added []tool) {
	front = slices.Clone(known)
	at := byName(known)
	for _, t := range now {
		i, ok := at[t.name]
		switch {
		case !ok:
			added = append(added, t)
		case front[i].hash != t.hash && parameters(front[i].raw) != parameters(t.raw):
			front[i] = t
		}
	}
	return front, added
}

// keep copies the bytes of tools, which point into a request.
func keep(tools []tool, known []tool) []tool {
	out := slices.Clone(tools)
	at := byName(known)
	for i := range out {
		if j, ok := at[out[i].name]; ok && known[j].hash == out[i].hash {
			out[i].raw = known[j].raw
		} else {
			out[i].raw = slices.Clone(out[i].raw)
		}
	}
	return out
}
