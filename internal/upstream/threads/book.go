// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package threads

import (
	"bytes"
	"maps"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Book keeps conversations of clients that send only new items, by their latest answers. It keeps prompts, in
// memory only.
type Book struct {
	now func() time.Time

	kept *lru.Cache[page, sessioncache.Tenant, *past] // its lock guards all below, too
	// answers to be forgotten, until no request that goes on from one can be in flight
	gone map[page]time.Time
}

const (
	// maxGone and maxAnswer bound the memory of deleted answers.
	maxGone   = 10_000
	maxAnswer = time.Hour
)

// page is the key of an answer.
type page struct {
	retain.Side
	answer string
}

// past is a conversation up to and with an answer.
type past struct {
	body  []byte       // the answered request, as the client wrote it
	list  rawjson.Span // its messages, without the brackets
	reply []byte       // the answer as a message of the next request
	from  string       // the answer that the request continued
	line  retain.Line  // that one, and those before it

	session string
}

// NewBook returns an empty book in a pool.
func NewBook(pool *lru.Pool[sessioncache.Tenant], life time.Duration, now func() time.Time) *Book {
	kept := lru.New(lru.Options[page, sessioncache.Tenant, *past]{Pool: pool, TTL: life, Now: now})
	return &Book{now: now, kept: kept, gone: map[page]time.Time{}}
}

// Keep keeps a conversation under the id of its last answer. The view is of the whole request, from is the answer
// that it continued, reply the answer as a message of the next request.
func (b *Book) Keep(s retain.Side, session, id, from string, v *wire.View, reply []byte) {
	if id == "" || len(reply) == 0 || len(v.Messages) == 0 {
		return
	}
	p := &past{from: from, reply: reply, session: session}
	if p.body, p.list = unmarked(v); p.body == nil {
		return
	}
	b.kept.Lock()
	defer b.kept.Unlock()
	if b.isGone(page{s, id}) || b.isGone(page{s, from}) { // deleted by the client meanwhile
		return
	}
	// A client may continue this response again, but not the one before it.
	if before := b.kept.Get(page{s, from}); before != nil {
		p.line = before.Value.line.After(from)
		if old := b.kept.Get(page{s, before.Value.from}); old != nil {
			b.kept.Drop(old)
		}
	}
	b.kept.Put(page{s, id}, s.Tenant, p, int64(cap(p.body)+cap(p.reply)+8*len(p.line)+len(id)+512))
}

// Drop forgets an answer that cannot be continued any more.
func (b *Book) Drop(s retain.Side, id string) {
	b.kept.Lock()
	defer b.kept.Unlock()
	if e := b.kept.Get(page{s, id}); e != nil {
		b.kept.Drop(e)
	}
}

// Forget forgets a deleted answer, and the later ones that contain it.
func (b *Book) Forget(s retain.Side, id string) {
	b.kept.Lock()
	defer b.kept.Unlock()
	now := b.now()
	maps.DeleteFunc(b.gone, func(_ page, until time.Time) bool { return !until.After(now) })
	b.leave(page{s, id})
	for old := range b.kept.OldestOf(s.Tenant) {
		if old.Key.Side == s && (old.Key.answer == id || old.Value.line.Has(id)) {
			b.leave(old.Key)
			b.kept.Drop(old)
		}
	}
}

// ForgetSession forgets the conversations of a tenant's session.
func (b *Book) ForgetSession(t sessioncache.Tenant, session string) {
	b.kept.Lock()
	defer b.kept.Unlock()
	for old := range b.kept.OldestOf(t) {
		if old.Value.session == session {
			b.kept.Drop(old)
		}
	}
}

// Clear forgets all conversations.
func (b *Book) Clear() {
	b.kept.Lock()
	defer b.kept.Unlock()
	b.kept.Clear()
}

// leave marks an answer as deleted, with the lock taken.
func (b *Book) leave(p page) {
	// A request in flight may continue the answer, and must not be kept.
	if p.answer != "" && len(b.gone) < maxGone {
		b.gone[p] = b.now().Add(maxAnswer)
	}
}

func (b *Book) isGone(p page) bool { return b.gone[p].After(b.now()) }

// Whole returns the whole of a request that continues an answer. It returns nil for an unknown answer, for members
// with an unknown effect at the provider, and without room for so many bytes.
func (b *Book) Whole(s retain.Side, v *wire.View, room func(n int64) bool) []byte {
	b.kept.Lock()
	e := b.kept.Get(page{s, v.Conversation.Continues})
	if e == nil {
		b.kept.Unlock()
		return nil
	}
	b.kept.Use(e)
	p := e.Value
	// Entries are immutable, and copying a long body takes time.
	b.kept.Unlock()
	if !room(int64(len(p.body) + len(p.reply) + len(v.Raw))) {
		return nil
	}
	return p.with(v)
}

// inherited are members that a thread may begin with and its next requests leave out;
// constant are those of which it is not known whether they may.
var (
	// A thread's later requests may leave out inherited members. For constant ones that is not known.
	inherited = []string{"system", "tools"}
	constant  = []string{"thinking", "output_config", "tool_choice", "context_management"}
)

func (p *past) with(v *wire.View) []byte {
	name, ok := lists[v.Format]
	if !ok || len(v.Messages) == 0 { // such a request resumes a paused turn
		return nil
	}
	body := make([]byte, 0, p.list.Len()+len(p.reply)+len(v.Raw)+64)
	body = append(append(append(body, '['), p.list.Of(p.body)...), ',')
	body = append(body, p.reply...)
	body = append(append(body, ','), Items(v)...)
	members := []wire.Member{{Name: name, Value: append(body, ']')}}
	if v.Traits().Threads {
		for _, name := range constant {
			// The effect at the provider is not documented.
			if has(v.Raw, name) != has(p.body, name) {
				return nil
			}
		}
		for _, name := range inherited {
			if has(v.Raw, name) {
				continue
			}
			if m := gjson.GetBytes(p.body, name); m.Exists() {
				members = append(members, wire.Member{Name: name, Value: []byte(m.Raw)})
			}
		}
		members = append(members, wire.Member{Name: "thread", Value: create})
	} else {
		members = append(members, wire.Member{Name: "previous_response_id"})
	}
	whole, err := wire.Patch(v.Raw, members...)
	if err != nil {
		return nil
	}
	return whole
}

func has(body []byte, name string) bool {
	for m := rawjson.Walk(body, 0); m.Next(); {
		is := string(m.Key) == name
		// Skipping spares parsing long values.
		if m.Skip(); m.Bad || is {
			return is && !m.Bad
		}
	}
	return false
}

func asItem(list []byte) []byte {
	if len(list) == 0 || list[0] != '"' {
		return list
	}
	return append(append([]byte(`{"role":"user","content":`), list...), '}')
}

// Items are the messages of a request, without the brackets.
func Items(v *wire.View) []byte { return asItem(list(v).Of(v.Raw)) }

// list is the span of the messages without their brackets.
func list(v *wire.View) rawjson.Span {
	n := len(v.Messages)
	if n == 0 {
		return rawjson.Span{}
	}
	return rawjson.Span{Start: v.Messages[0].Span.Start, End: v.Messages[n-1].Span.End}
}

// unmarked returns a copy of a body without the markers in its messages, and the span of the messages.
func unmarked(v *wire.View) ([]byte, rawjson.Span) {
	at := list(v)
	out := make([]byte, 0, len(v.Raw))
	from := 0
	for i := v.System; i < len(v.Blocks); i++ {
		// Each request sets its markers anew.
		m := v.Blocks[i].Marker
		if m.Empty() {
			continue
		}
		cut, ok := member(v.Raw, m)
		if !ok || int(cut.Start) < from {
			return nil, rawjson.Span{}
		}
		out = append(out, v.Raw[from:cut.Start]...)
		from = int(cut.End)
	}
	out = append(out, v.Raw[from:]...)
	at.End -= int32(len(v.Raw) - len(out)) // markers stand in messages, and so do all that were cut
	if v.Raw[at.Start] == '"' {
		item := asItem(at.Of(out))
		return item, rawjson.Span{End: int32(len(item))}
	}
	return out, at
}

// member returns the span of a member and its comma, by the member's value.
func member(b []byte, value rawjson.Span) (rawjson.Span, bool) {
	const key = `"cache_control"`
	head := bytes.TrimRight(b[:value.Start], " \t\r\n")
	if !bytes.HasSuffix(head, []byte{':'}) {
		return rawjson.Span{}, false
	}
	head = bytes.TrimRight(head[:len(head)-1], " \t\r\n")
	if !bytes.HasSuffix(head, []byte(key)) {
		return rawjson.Span{}, false
	}
	head = bytes.TrimRight(head[:len(head)-len(key)], " \t\r\n")
	if bytes.HasSuffix(head, []byte{','}) {
		return rawjson.Span{Start: int32(len(head) - 1), End: value.End}, true
	}
	rest := bytes.TrimLeft(b[value.End:], " \t\r\n")
	if !bytes.HasPrefix(rest, []byte{','}) {
		return rawjson.Span{Start: int32(len(head)), End: value.End}, true // its only member
	}
	return rawjson.Span{Start: int32(len(head)), End: int32(len(b) - len(rest) + 1)}, true
}
