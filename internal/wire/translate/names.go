// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// ToolName is the client's name of a tool.
type ToolName struct {
	// Namespace is the tool's group in the Responses format, or empty.
	Namespace string
	// Name is the tool's name.
	Name string
	// Custom: the tool takes free text. Toward other formats it is a function with one string
	// argument, "input".
	Custom bool
}

// Names maps the upstream's tool names back to the client's. A nil Names maps every name to itself.
type Names struct {
	limit int
	dots  bool // the upstream allows dots and colons
	out   map[ToolName]string
	back  map[string]ToolName
	// changes are the calls of [Names.Upstream] that changed the maps, in order.
	changes []ToolName
}

// newNames returns no names, with room for n.
func newNames(to wire.Format, limit, n int) *Names {
	if limit <= 0 {
		limit = dialectOf(to).rules.NameLimit
	}
	return &Names{
		limit: limit, dots: dialectOf(to).rules.Dots, out: make(map[ToolName]string, n), back: make(map[string]ToolName, n),
		changes: make([]ToolName, 0, n),
	}
}

// Client returns the client's tool for an upstream name.
func (n *Names) Client(upstream string) ToolName {
	if n != nil {
		if t, ok := n.back[upstream]; ok {
			return t
		}
	}
	return ToolName{Name: upstream}
}

// Upstream returns the upstream's name of a tool. Invalid names are shortened and end with a hash
// of the whole name. The result depends only on the tool, so that the prompt prefix stays the same.
func (n *Names) Upstream(t ToolName) string {
	key := ToolName{Namespace: t.Namespace, Name: t.Name}
	if s, ok := n.out[key]; ok {
		if t.Custom && n.back[s] != t {
			n.back[s] = t
			n.changes = append(n.changes, t)
		}
		return s
	}
	full := t.Name
	if t.Namespace != "" {
		full = t.Namespace + "__" + t.Name
	}
	s := n.fit(full)
	// Two tools must not share a name.
	if other, taken := n.back[s]; taken && (other.Name != t.Name || other.Namespace != t.Namespace) {
		s = n.hashed(full, t.Namespace+"\x00"+t.Name)
	}
	n.out[key], n.back[s] = s, t
	n.changes = append(n.changes, t)
	return s
}

func (n *Names) fit(name string) string {
	if name != "" && len(name) <= n.limit && n.allowed(name[0], true) {
		ok := true
		for i := 1; i < len(name) && ok; i++ {
			ok = n.allowed(name[i], false)
		}
		if ok {
			return name
		}
	}
	return n.hashed(name, name)
}

func (n *Names) hashed(name, of string) string {
	const tail = 9 // underscore and eight digits
	b := make([]byte, 0, n.limit)
	for i := 0; i < len(name) && len(b) < n.limit-tail; i++ {
		c := name[i]
		if !n.allowed(c, len(b) == 0) {
			c = '_'
		}
		b = append(b, c)
	}
	sum := sha256.Sum256([]byte(of))
	b = append(b, '_')
	return string(hex.AppendEncode(b, sum[:4]))
}

func (n *Names) allowed(c byte, first bool) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
		return true
	case c >= '0' && c <= '9', c == '-':
		return !first || !n.dots // Gemini wants a letter or underscore first
	case c == '.', c == ':':
		return n.dots && !first
	}
	return false
}

// CallID returns a call's id in a form valid at the upstream. The result depends only on the id, so
// that calls and results still match.
func (w *Writer) CallID(id string) string {
	limit := w.Rules.IDLimit
	if limit == 0 {
		return id
	}
	ok := id != "" && len(id) <= limit
	for i := 0; i < len(id) && ok; i++ {
		c := id[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
	}
	if ok {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12])
}
