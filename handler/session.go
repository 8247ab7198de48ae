// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// maxID bounds the ids that clients may make us keep. Longer ones are hashed.
const maxID = 128

// sessionKey returns the key of the session that a request belongs to.
func (o *site) sessionKey(r *http.Request, tenant sessioncache.Tenant, v *wire.View) sessioncache.Key {
	k := sessioncache.Key{
		Tenant: tenant, Upstream: o.upstreamKey(r), ID: namedID(r.Header, o.clients.named, v),
		Request: v,
	}
	if k.ID != "" {
		return k
	}
	// Without a name, the conversation is known by the response that the request continues, or by its first response;
	// failing these, by its beginning.
	k.ID = beginning(v)
	if k.Answer = wire.AnswerID(v.Conversation.Continues); k.Answer.IsZero() {
		k.Answer = v.FirstAnswer()
	}
	return k
}

// namedID returns the client's name of the conversation, from a header or the body, "" without one.
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

func first(h http.Header, canonical string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func bounded(id string) string {
	if len(id) <= maxID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// beginning hashes the part of a conversation that never changes: the system prompt, and all up to the end of
// the first user message.
func beginning(v *wire.View) string {
	first, end := v.System, v.System
	for i, m := range v.Messages {
		end = int(m.End)
		if m.Role != wire.RoleUser {
			continue
		}
		// Gemini CLI puts a content with the day and a list of files before the first prompt, and makes it anew when
		// it resumes. Of several user contents at the start, only the last counts.
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

// upstreamKey identifies the upstream by its preset and the client's base URL, without a model in the path.
func (o *site) upstreamKey(r *http.Request) string { return o.upstreamKeyAt(r, knownPath(r)) }

// knownPath is the path as the client wrote it.
func knownPath(r *http.Request) string {
	if o, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && o.URL != nil {
		return o.URL.Path
	}
	return r.URL.Path
}

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
	b = append(b, wire.Base(path)...)
	if t := fallenOf(r); t != nil { // it may have the first upstream's preset
		b = strconv.AppendInt(append(b, " fallback "...), int64(t.depth), 10)
	}
	return reuse.Intern(b)
}

// parse reads a body, and recognises the parts that the tenant's conversations have sent before.
func (o *site) parse(format wire.Format, body []byte, tenant sessioncache.Tenant) (*wire.View, error) {
	m := memory{o: o, tenant: tenant}
	defer func() { m.known.Unpin() }()
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
	m.known.Unpin() // of a first guess
	m.known = m.o.store.Recall(m.tenant, first)
	return m.known
}
