// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/letta"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/relay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/threads"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/websocket"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// threadKeeper is a request of a conversation that the provider keeps, or is asked to keep.
type threadKeeper struct {
	engine *retain.Engine
	view   *wire.View  // of the whole, as the client wrote it
	own    *retain.Own // the client's own request, if it held new parts only
	heard  func(retain.Verdict)
}

func (t *threadKeeper) request(body []byte) *retain.Request {
	return threads.Request(t.view.Format, body, t.view, t.own)
}

// side names a tenant's upstream in the memories of conversations.
func (o *site) side(r *http.Request, tenant sessioncache.Tenant) retain.Side {
	return retain.Side{Tenant: tenant, Upstream: o.upstreamKey(r)}
}

// forgets returns a function that drops a deleted answer from all memories, and reports whether it was
// held for a client's WebSocket, the only place where it existed. It must be called before r is changed.
func (o *site) forgets(r *http.Request, x *resource.Resource) func() bool {
	side := retain.Side{Tenant: o.store.Tenants().Of(r), Upstream: o.upstreamKeyAt(r, x.Collection(knownPath(r)))}
	return func() bool {
		relay.Of(o.store).Forget(side, x.ID)
		o.holding.carriers.Forget(side, x.ID)
		letta.Of(o.store).Forget(side, x.ID)
		return websocket.Of(o.store).Forget(x.ID, func(r *http.Request) bool { return o.side(r, o.store.Tenants().Of(r)) == side })
	}
}

// keeps reports whether a provider may keep conversations of a format as they go out from
// here: nothing behind the edits changes them. Under eager, history is edited all the time.
func (o *site) keeps(f wire.Format) bool {
	return threads.Kept(f) && o.up.Holds(f) && o.up.Verbatim(f) && o.pipe.Policy() != pipeline.Eager
}

// joined completes a request that goes on from an answer, so that it is read, edited and accounted for
// as if the client had sent the whole conversation. It returns nil if the conversation is not known, or
// if there is no room for it.
func (o *site) joined(r *http.Request, tenant sessioncache.Tenant, v *wire.View, a *arrival) (*wire.View, *retain.Own) {
	if !v.Conversation.Partial || v.Conversation.Continues == "" || !o.keeps(v.Format) {
		return nil, nil
	}
	_, book := o.holding.engines.Threads(v.Format)
	body := book.Whole(o.side(r, tenant), v, func(n int64) bool { return a.room(r, n) })
	if body == nil {
		return nil, nil
	}
	whole, err := o.parse(v.Format, body, tenant)
	if err != nil || whole.Conversation.Partial || !whole.OffersTools() {
		return nil, nil
	}
	return whole, &retain.Own{Handle: v.Conversation.Continues, Body: v.Raw, Items: threads.Items(v)}
}

// threadKeeper returns how the request goes to a provider that keeps its conversation, nil if
// that is none of ours.
func (x *exchange) threadKeeper(r *http.Request) *threadKeeper {
	v := x.view
	if v.Conversation.Partial || !v.OffersTools() || !x.site.keeps(v.Format) {
		return nil
	}
	wanted := x.own != nil || !v.Conversation.Thread.Empty() || v.Traits().KeepsAnswers && !v.Conversation.Stateless && !hasAnswer(v)
	if !wanted && !(v.Traits().Threads && x.site.holding.options.Threaded(len(v.Raw))) {
		return nil
	}
	t := &threadKeeper{view: v, own: x.own}
	var book *threads.Book
	if t.engine, book = x.site.holding.engines.Threads(v.Format); !wanted {
		return t
	}
	from := ""
	if x.own != nil {
		from = x.own.Handle
	}
	side, session := x.site.side(r, x.tenant), x.sessionID
	t.heard = func(h retain.Verdict) {
		book.Keep(side, session, h.Handle, from, v, h.Reply)
		if v.Traits().Threads { // an answer of a thread is gone on from once
			book.Drop(side, from)
		}
	}
	return t
}

// mayBeCarried reports whether the request may go over a WebSocket.
func (x *exchange) mayBeCarried() bool {
	v := x.view
	return x.site.holding.carriers != nil && v.Traits().Sockets && !v.Conversation.Partial && v.Conversation.Stateless && v.OffersTools() && x.site.keeps(v.Format)
}

// hasAnswer reports whether a request holds an answer of the model's: a client that keeps the
// conversation will hardly leave it to the provider.
func hasAnswer(v *wire.View) bool {
	for i := range v.Messages {
		if v.Messages[i].Role == wire.RoleAssistant {
			return true
		}
	}
	return false
}
