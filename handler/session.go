// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// longestID bounds the ids that clients may make us keep. Longer ones are hashed.
const longestID = 128

// sessionKey tells which session a request belongs to. A conversation that the client
// does not name is known by the answer that the request goes on from, or by its first
// one; failing that, by how it began.
func (o *site) sessionKey(r *http.Request, tenant sessioncache.Tenant, v *wire.View) sessioncache.Key {
	k := sessioncache.Key{
		Tenant: tenant, Upstream: o.upstreamKey(r), ID: namedID(r.Header, o.clients.named, v),
		Request: v,
	}
	if k.ID != "" {
		return k
	}
	k.ID = beginning(v)
	if k.Answer = wire.AnswerID(v.Conversation.Continues); k.Answer.IsZero() {
		k.Answer = v.FirstAnswer()
	}
	return k
}

// namedID is the name that the client gives the conversation of a request, in a
// header or in the body; empty if it gives none.
func namedID(h http.Header, configured string, v *wire.View) string {
	if id := first(h, configured); id != "" {
		return bounded(id)
	}
	if id := first(h, "X-Claude-Code-Session-Id"); id != "" {
		if agent := first(h, "X-Claude-Code-Agent-Id"); agent != "" {
			id += "/" + agent
		}
		return bounded(id)
	}
	for _, name := range [...]string{"Session-Id", "X-Session-Affinity"} {
		if id := first(h, name); id != "" {
			return bounded(id)
		}
	}
	return bounded(v.Session)
}

// first is Header.Get for a name in canonical form.
func first(h http.Header, canonical string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func bounded(id string) string {
	if len(id) <= longestID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// beginning hashes the system prompt and everything up to the end of the
// first user message: the part of a conversation that never changes. Gemini CLI
// puts a content of its own before the first prompt that tells the day and lists
// the files, and makes it anew when it resumes: of several contents of the user
// at the start only the last counts.
func beginning(v *wire.View) string {
	first, end := v.System, v.System
	for i, m := range v.Messages {
		end = int(m.End)
		if m.Role != wire.RoleUser {
			continue
		}
		if !v.Traits().Surroundings || i+1 == len(v.Messages) || v.Messages[i+1].Role != wire.RoleUser {
			break
		}
		first = end
	}
	var few [16 * len(wire.Hash{})]byte
	all := few[:0]
	for i := v.Tools; i < v.System; i++ {
		all = append(all, v.Blocks[i].Hash[:]...)
	}
	for i := first; i < end; i++ {
		all = append(all, v.Blocks[i].Hash[:]...)
	}
	sum := sha256.Sum256(all)
	return "begins-" + hex.EncodeToString(sum[:16])
}

// upstreamKey tells conversations at one upstream from those at another: by
// the preset and by the base URL under which the client knows it. A model that
// stands in the path is not part of that.
func (o *site) upstreamKey(r *http.Request) string { return o.upstreamKeyAt(r, knownPath(r)) }

// knownPath is the path as the client wrote it.
func knownPath(r *http.Request) string {
	if o, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && o.URL != nil {
		return o.URL.Path
	}
	return r.URL.Path
}

// upstreamKeyAt is upstreamKey for another path.
func (o *site) upstreamKeyAt(r *http.Request, path string) string {
	preset := "inferred"
	if u := o.up.Upstream; u != nil && u.Preset != "" {
		preset = u.Preset
	}
	var few [192]byte
	b := append(append(few[:0], preset...), ' ')
	at := len(b)
	b = append(b, r.Host...)
	if host := b[at:]; bytes.ContainsFunc(host, func(c rune) bool { return c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' }) {
		b = append(b[:at], bytes.ToLower(host)...)
	}
	return reuse.Intern(append(b, wire.Base(path)...))
}

// parse reads a body, and recognises the parts that the tenant's conversations have sent before.
func (o *site) parse(format wire.Format, body []byte, tenant sessioncache.Tenant) (*wire.View, error) {
	m := memory{o: o, tenant: tenant}
	defer func() { m.known.Release() }()
	return wire.Parse(format, body, m.recall)
}

// memory finds parsed requests of a tenant's conversations.
type memory struct {
	o      *site
	tenant sessioncache.Tenant
	known  *wire.Known
}

// recall returns the parsed request of the conversation that begins so.
func (m *memory) recall(first wire.Hash) *wire.Known {
	m.known.Release() // of a first guess
	m.known = m.o.store.Recall(m.tenant, first)
	return m.known
}
