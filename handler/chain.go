// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/local"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/queue"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/relay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// chain lists the layers between the handler and the upstream, outermost first, with the kinds of
// requests that pass each. A new layer is a line here and a file of its own. A layer gets its inputs
// from the passage and knows neither the handler nor the request's state.
var chain = [...]struct {
	name  string
	takes purpose
	layer func(p *passage, next caddyhttp.Handler) caddyhttp.Handler
}{
	{"span", conversing | aside, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler { return p.span.Layer(next) }},
	{"unkept ids", conversing | aside, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		if !p.unkept {
			return next
		}
		return upstream.Unkept(next)
	}},
	{"applied edits", conversing | aside, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		if p.cleared == nil {
			return next
		}
		return p.site.up.Applied(next, p.format, p.cleared)
	}},
	{"rejoin", conversing, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		var asked local.Asked
		if p.view != nil && !p.ticket.Side {
			asked = local.Asked{Session: p.session, Body: p.view.Raw}
		}
		return p.site.sharing.rejoin.Layer(next, p.tenant, asked)
	}},
	{"queue", conversing | unparsed | unlooked, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return p.site.sharing.queue.Layer(next, p.site.sharing.slots, p.format, p.ticket, &p.boxed.place, &p.site.sharing.rejoin)
	}},
	{"beside the queue", slotless, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		if p.site.sharing.queue == nil {
			return next
		}
		return p.site.sharing.beside.Layer(next)
	}},
	{"write barrier", conversing, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return p.site.barred(next, p.front)
	}},
	{"usage", conversing | aside, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return p.site.usage.layer(next, p)
	}},
	{"translate", conversing | aside | unparsed | pinging | folding, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return p.site.up.Translate(next, p.format, p.session, p.view)
	}},
	{"tool changes", conversing | aside | unparsed | folding | slotless, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return p.site.up.ToolChanges(next, p.format)
	}},
	{"overlay", conversing | folding, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return p.site.sharing.overlay.Layer(next, p.format, local.Conversation{
			Session: p.session, Tenant: p.tenant, Ahead: p.purpose == folding,
		})
	}},
	{"prefix recorder", conversing, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return p.site.recorded(next, p.boxed.prompt)
	}},
	{"compat", conversing | aside | unparsed | folding | warming, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return p.site.up.Compat(next, p.format)
	}},
	{"amend", conversing | aside | unparsed | folding, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return p.site.up.Amend(next, p.format)
	}},
	{"length", unlooked | slotless, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		if !p.site.up.Local() {
			return next
		}
		return p.site.withLength(next)
	}},
	{"unpack", conversing | aside | unparsed, func(_ *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return upstream.Unpack(next)
	}},
	{"address", conversing | aside | unparsed | unlooked | slotless | pinging, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return p.site.up.Address(next, p.format)
	}},
	{"sign", conversing | aside | unparsed | unlooked | slotless | pinging | folding | warming, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return p.site.up.Sign(next)
	}},
	{"threads", conversing, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		if p.threads == nil {
			return next
		}
		return relay.Layer(next, p.threads.engine, p.site.up.Headers, func(r *http.Request, body []byte) (retain.Key, *retain.Request) {
			return p.held(r), p.threads.request(body)
		}, p.threads.heard)
	}},
	{"websocket", conversing, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		if !p.carried {
			return next
		}
		pool := p.site.holding.carriers
		return relay.Layer(pool.Layer(next, p.held), p.site.holding.engines.Sockets(), p.site.up.Headers,
			func(r *http.Request, body []byte) (retain.Key, *retain.Request) {
				return p.held(r), pool.Request(body, p.view)
			}, nil)
	}},
	{"letta", conversing, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return p.site.holding.letta.Layer(next, p.held, p.named)
	}},
	{"hold", conversing | pinging | folding, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		if p.site.holding.engine == nil {
			return next
		}
		return relay.Layer(next, p.site.holding.engine, p.site.up.Headers, func(r *http.Request, body []byte) (retain.Key, *retain.Request) {
			return p.held(r), &retain.Request{Body: body}
		}, nil)
	}},
	{"side requests", aside, func(p *passage, next caddyhttp.Handler) caddyhttp.Handler {
		return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			return p.site.sides.ServeHTTP(w, r, next)
		})
	}},
}

// purpose is why a request goes upstream.
type purpose uint8

const (
	conversing purpose = 1 << iota // a client's, of a conversation
	aside                          // a client's on the side, where those have an upstream of their own
	unparsed                       // a client's that was not understood
	unlooked                       // a client's that was not looked at
	slotless                       // a client's that takes no slot of a box: a count of tokens, embeddings
	pinging                        // ours, to keep a cache alive
	folding                        // ours, for a box to read a folded history
	warming                        // ours, for a box to read a base
)

// passage holds the inputs of the layers for one request.
type passage struct {
	site *site
	purpose
	format  wire.Format // the client's
	session string      // public id of the session, which names the conversation to the upstream
	named   string      // the client's own name of it, where a layer needs that
	tenant  sessioncache.Tenant
	span    *Span                // nil where nothing is traced
	unkept  bool                 // the client gets ids of answers that no provider keeps
	boxed   *boxed               // learns from the layers of a local server
	cleared func() *wire.Cleared // the parts of the prompt cleared on the client's order, nil without an order
	ticket  queue.Ticket
	front   *front        // nil where there is nothing to wait for
	threads *threadKeeper // nil where the provider keeps nothing of it
	view    *wire.View    // of the client's own request, nil if it was not parsed
	carried bool          // it may go over a WebSocket
}

// held is the key of a request's conversation in the memories of conversations.
func (p *passage) held(r *http.Request) retain.Key {
	first, _ := caddyhttp.GetVar(r.Context(), "llm_lineage").(wire.Hash)
	return retain.Key{Side: p.site.side(r, p.tenant), Session: p.session, Lineage: first}
}

// through returns next behind the layers of the chain that are for the request.
func (p *passage) through(next caddyhttp.Handler) caddyhttp.Handler {
	for _, l := range slices.Backward(chain[:]) {
		if l.takes&p.purpose != 0 {
			next = l.layer(p, next)
		}
	}
	return next
}

// unknown is the passage of a client's request that is of no conversation we know.
func (o *site) unknown(r *http.Request, e purpose, format wire.Format) *passage {
	return &passage{site: o, purpose: e, format: format, ticket: o.sideTicket(r), boxed: new(boxed)}
}
