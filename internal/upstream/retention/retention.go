// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package retention is the feature of conversations retained by the upstream: requests carry only the
// new items. It joins the drivers of the packages beside it to the handler's chain. It also accepts the
// WebSockets of clients, and keeps their conversations here.
package retention

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/feature"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/letta"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/relay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/socket"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/threads"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/websocket"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Retention leaves conversations to an upstream that can keep them.
type Retention struct{ relay.Options }

// CaddyModule returns the Caddy module information.
func (Retention) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.llm_cache.retain", New: func() caddy.Module { return new(Retention) }}
}

func init() { caddy.RegisterModule(Retention{}) }

// Interface guards
var (
	_ feature.Feature = (*Retention)(nil)
	_ caddy.Validator = (*Retention)(nil)
)

// CaddyfileOptions implements [feature.Feature].
func (r *Retention) CaddyfileOptions() option.Options {
	return option.Options{"retain": option.Into(&r.Options)}
}

type part struct {
	*feature.Site
	options     *relay.Options
	engines     *relay.Engines
	engine      *retain.Engine // towards an origin, nil without one
	letta       *letta.Site    // nil if the upstream is none
	connections *socket.Pool   // nil where nothing goes over WebSockets
	sockets     *websocket.Server
}

// Open implements [feature.Feature].
func (r *Retention) Open(s *feature.Site) (*feature.Part, error) {
	engines, err := relay.Of(s.State).Share(&r.Options)
	if err != nil {
		return nil, err
	}
	s.Share(engines)
	p := &part{
		Site: s, options: &r.Options, engines: engines.Of, engine: engines.Of.Open(&r.Options),
		letta: letta.Open(s.State, engines.Of, &r.Options, s.Upstream, s.Now), sockets: listen(s),
	}
	layers := map[string]feature.Layer{"threads": p.threads}
	if r.WebSocket {
		p.connections = socket.NewPool(s.Now)
		layers["websocket"] = p.websocket
	}
	if p.letta != nil {
		layers["letta"] = p.speakLetta
	}
	if p.engine != nil {
		layers["retain"] = p.origin
	}
	return &feature.Part{
		Layers: layers, Serve: p.serve, Complete: p.complete, Forget: p.forget,
		Close: func() {
			p.sockets.Close()
			p.connections.Close()
		},
	}, nil
}

func (s *part) side(r *http.Request, tenant sessioncache.Tenant) retain.Side {
	return retain.Side{Tenant: tenant, Upstream: s.UpstreamKey(r)}
}

func (s *part) key(p *feature.Request) func(r *http.Request) retain.Key {
	return func(r *http.Request) retain.Key {
		first, _ := caddyhttp.GetVar(r.Context(), "llm_conversation").(wire.Hash)
		return retain.Key{Side: s.side(r, p.Tenant), Session: p.Session, Conversation: first}
	}
}

// keeps reports whether a provider may retain conversations of a format.
func (s *part) keeps(f wire.Format) bool {
	// No layer may change a request after the edits, and eager edits history all the time.
	return threads.Kept(f) && s.Upstream.CanRetain(f) && s.Upstream.Verbatim(f) && s.Pipeline.Policy() != pipeline.Eager
}

// continuation is the client's own request that continues an answer.
type continuation struct{ *retain.Continuation }

// complete returns the whole conversation of a continuing request.
func (s *part) complete(r *http.Request, p *feature.Request, v *wire.View, room func(int64) bool) *wire.View {
	if v.Conversation.Continues == "" || !s.keeps(v.Format) {
		return nil
	}
	_, book := s.engines.Threads(v.Format)
	body := book.Whole(s.side(r, p.Tenant), v, room)
	if body == nil {
		return nil
	}
	whole, err := s.Parse(v.Format, body, p.Tenant)
	if err != nil || whole.Conversation.Partial || !whole.OffersTools() {
		return nil
	}
	feature.Attachment[continuation](p).Continuation = &retain.Continuation{
		Handle: v.Conversation.Continues, Body: v.Raw, Items: threads.Items(v),
	}
	return whole
}

// kept reports whether the provider retains a request's conversation, and whether the book of the clients' own has
// it.
func (s *part) kept(p *feature.Request) (byProvider, inBook bool) {
	v := p.View
	if v.Conversation.Partial || !v.OffersTools() || !s.keeps(v.Format) {
		return false, false
	}
	wanted := p.Partial || !v.Conversation.Thread.Empty() || v.Traits().KeepsAnswers && !v.Conversation.Stateless &&
		!hasAnswer(v)
	return wanted || v.Traits().Threads && s.options.Threaded(len(v.Raw)), wanted
}

func hasAnswer(v *wire.View) bool {
	for i := range v.Messages {
		if v.Messages[i].Role == wire.RoleAssistant {
			return true
		}
	}
	return false
}

// threads sends only new items of a conversation that the provider retains.
func (s *part) threads(next caddyhttp.Handler, p *feature.Request) caddyhttp.Handler {
	byProvider, inBook := s.kept(p)
	if !byProvider {
		return next
	}
	var sent *retain.Continuation // by the client
	if p.Partial {
		sent = feature.Attachment[continuation](p).Continuation
	}
	v, key := p.View, s.key(p)
	engine, book := s.engines.Threads(v.Format)
	of := func(r *http.Request, body []byte) (retain.Key, *retain.Request) {
		return key(r), withMarkers(threads.Request(v.Format, body, v, sent), p)
	}
	if !inBook {
		return relay.Layer(next, engine, s.Upstream.Headers, of, nil)
	}
	side := retain.Side{Tenant: p.Tenant, Upstream: p.Upstream} // a signature changes the request's host
	return relay.Layer(next, engine, s.Upstream.Headers, of, func(h retain.Verdict) {
		from := ""
		if sent != nil {
			from = sent.Handle
		}
		book.Keep(side, p.Session, h.Handle, from, v, h.Reply)
		if v.Traits().Threads { // an answer of a thread is continued once
			book.Drop(side, from)
		}
	})
}

// websocket sends only new items over a WebSocket to a provider that retains the conversation with it.
func (s *part) websocket(next caddyhttp.Handler, p *feature.Request) caddyhttp.Handler {
	v := p.View
	if byProvider, _ := s.kept(p); byProvider || !v.Traits().Sockets || v.Conversation.Partial ||
		!v.Conversation.Stateless || !v.OffersTools() || !s.keeps(v.Format) {
		return next
	}
	key := s.key(p)
	return relay.Layer(s.connections.Layer(next, key), s.engines.Sockets(), s.Upstream.Headers,
		func(r *http.Request, body []byte) (retain.Key, *retain.Request) {
			return key(r), withMarkers(s.connections.Request(body, v), p)
		}, nil)
}

// withMarkers has a request sent whole where a delta would leave out a cache marker that the edits added.
func withMarkers(request *retain.Request, p *feature.Request) *retain.Request {
	if request != nil {
		request.WritesEntry = p.Edit != nil && p.Edit.WritesEntry()
	}
	return request
}

func (s *part) speakLetta(next caddyhttp.Handler, p *feature.Request) caddyhttp.Handler {
	return s.letta.Layer(next, s.key(p), p.Name)
}

// origin sends the difference to an earlier body to a Caddy with llm_cache_origin.
func (s *part) origin(next caddyhttp.Handler, p *feature.Request) caddyhttp.Handler {
	key := s.key(p)
	of := func(r *http.Request, body []byte) (retain.Key, *retain.Request) {
		return key(r), &retain.Request{Body: body}
	}
	return relay.Layer(next, s.engine, s.Upstream.Headers, of, nil)
}

// forget forgets a deleted answer.
func (s *part) forget(r *http.Request, x *resource.Resource) func() (ours bool) {
	tenants := s.State.Tenants()
	side := retain.Side{Tenant: tenants.Of(r), Upstream: s.CollectionKey(r, x)}
	return func() bool {
		// The answer may be retained by any mechanism, and answers on a client's WebSocket exist only here.
		relay.Of(s.State).Forget(side, x.ID)
		s.connections.Forget(side, x.ID)
		letta.Of(s.State).Forget(side, x.ID)
		return websocket.Of(s.State).Forget(x.ID, func(r *http.Request) bool { return s.side(r, tenants.Of(r)) == side })
	}
}
