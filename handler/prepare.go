// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/warm"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/websocket"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// release ends a request's hold on its session, and forgets a session that was deleted meanwhile: the
// request may have left something of it.
func (c *requestState) release() {
	s := c.site.store
	s.Release(c.session)
	if !c.session.Gone() {
		return
	}
	if _, accepted := c.ex.Committed(); accepted || c.session.Number() > 0 { // else there is nothing
		s.Forget(c.session)
	}
}

// process serves a request after its body was read.
func (o *site) process(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, a *arrival) error {
	started := time.Now()
	o.words.arrives()
	c, why := (*requestState)(nil), a.why
	if a.Undone() == nil {
		c, why = o.prepare(r, a.format, a.Data, a.body(), a)
	}
	if why.view != nil {
		return o.refuse(w, r, why)
	}
	a.settle(c)
	if c == nil {
		o.notes.pass(w, r, a.format, why)
		o.records.count(outcomePassed)
		return passBody(w, r, o.unknown(r, unparsed, a.format).through(next), &a.Payload)
	}
	c.books.span = c.trace(r.Context())
	defer c.endSpan(r.Context())
	defer o.noteHost(r.Context())
	var to func(body []byte) *selfrequest.Target
	if way := selfrequest.Passing(r); o.keepalive != nil || o.sharing.warm != nil || o.sharing.fold != nil || way.Behind > 0 {
		to = c.targets(r, way)
	}
	if o.sharing.warm != nil {
		c.boxed.prompt = &warm.Prompt{Tenant: c.asker.tenant, View: c.view, Side: isSide(r.Header)}
	}
	p := &c.passage
	*p = passage{
		site: o, purpose: conversing, format: a.format, session: c.session.ID(), tenant: c.asker.tenant, unkept: c.body.rethread != nil, span: c.books.span,
		boxed: &c.boxed, ticket: c.ticket(r), view: c.view,
	}
	if c.ex.Prompt.Applied != nil {
		p.cleared = func() *wire.Cleared { return c.ex.Prompt.Applied } // nil once edits are given up
	}
	if o.holding.letta != nil {
		p.named = namedID(r.Header, o.clients.named, c.view)
	}
	if o.isAside(c, r) {
		p.purpose = aside
	}
	if p.threads = c.threads(r); p.threads == nil {
		p.carried = c.carried()
	}
	p.front = c.front(r)
	next = p.through(next)
	if c.body.rethread != nil {
		defer c.body.rethread()
	}
	defer c.release()
	if o.bounded() {
		reserved, refused, err := o.afford(w, r, c.asker.person, c.view, mostOf(c.ex, &c.view.Reply))
		if refused {
			o.guard("giving up a request", c.ex.Abandon)
			return err
		}
		defer reserved.Settle()
	}
	var err error
	if l := c.heartbeat(w, r); l != nil {
		defer l.Stop()
		err = l.End(c.attend(l, r, next, to, started))
	} else {
		err = c.attend(w, r, next, to, started)
	}
	if p.purpose != aside {
		c.warmed(to)
	}
	if err != nil {
		return err
	}
	if p.purpose != aside {
		c.foldIdly(to)
		c.leaveOut()
	}
	c.recycle(r)
	return nil
}

// attend serves a request during which its conversation is not idle.
func (c *requestState) attend(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, to func(body []byte) *selfrequest.Target, started time.Time) error {
	defer c.visits(r, to)()
	return c.serve(w, r, next, started)
}

// refuse answers a request that goes nowhere.
func (o *site) refuse(w http.ResponseWriter, r *http.Request, why bypass) error {
	o.records.count(outcomeUnheld)
	o.guard("putting a refusal on record", func() {
		session := o.store.Acquire(r.Context(), o.sessionKey(r, o.store.Tenants().Of(r), why.view))
		defer o.store.Release(session)
		o.records.refused(r, o.whose(r), why.view, session.ID())
	})
	if what, ok := errors.AsType[upstream.Unheld](why.err); ok {
		return what.Refuse(w, why.view.Format)
	}
	return upstream.RefuseUnheld(w)
}

// passBody hands a request on with the body that it came with.
func passBody(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, p *httpx.Payload) error {
	p.Attach(r)
	if err := next.ServeHTTP(w, r); err != nil {
		httpx.SetBody(r, p.Data) // for an error route
		return err
	}
	r.Body, r.GetBody = http.NoBody, nil
	p.Recycle()
	return nil
}

// prepare finds the session of a request and edits its prompt, given its body as sent and decoded, and
// the arrival that gives room for a larger one. It returns nil and the reason where the original is to
// be forwarded untouched. A panic in here costs the request nothing.
func (o *site) prepare(r *http.Request, format wire.Format, raw, body []byte, a *arrival) (c *requestState, why bypass) {
	var session *sessioncache.Session
	var rethread func()
	defer func() {
		if p := recover(); p != nil {
			httpx.LogPanic(o.up.Log, "preparing a request", p)
			if session != nil {
				o.store.Release(session)
			}
			c, why = nil, bypass{reason: httpx.Panic}
		}
		if c == nil && rethread != nil {
			rethread()
		}
	}()

	tenant := o.store.Tenants().Of(r)
	view, err := o.parse(format, body, tenant)
	if err == nil && !view.Conversation.Thread.Empty() && !o.up.Holds(format) {
		if view.Conversation.Partial {
			return nil, bypass{err: upstream.ErrUnheld, view: view}
		}
		if raw, rethread, err = upstream.Unthread(r, raw, body); err == nil {
			if view, err = o.parse(format, raw, tenant); err == nil {
				view.Conversation.Unthreaded = true
			}
		}
	}
	if err != nil {
		return nil, bypass{reason: reasonParse, err: err}
	}
	if o.up.Target(format) == format && !o.up.Holds(format) {
		if what := upstream.ProvidersOnly(view); what != "" {
			return nil, bypass{err: what, view: view}
		}
	}
	whole, own := o.joined(r, tenant, view, a)
	if whole != nil {
		view = whole
	}
	view.Address(r.URL.Path, r.URL.RawQuery)
	acquiring := time.Now()
	session = o.store.Acquire(r.Context(), o.sessionKey(r, tenant, view))
	waited := time.Since(acquiring)
	websocket.InSession(r.Context(), session.ID())
	c = &requestState{
		site: o, view: view, session: session, asker: asker{tenant: tenant, person: o.clients.people.OfTenant(r, o.persons(), tenant, translate.KeyHeader(format)), host: r.Host},
		body: bodies{raw: raw, rethread: rethread, own: own}, telling: telling{all: o.tellsAll(r.Header)}, books: books{began: time.Now()},
	}
	session.SetLifetime(o.keeper.Lifetime(o.keepalive, r, tenant))
	at := o.now()
	c.refusal.route = c.routeOf(r)
	without := o.refused.Without(c.refusal.route, tenant, at)
	c.ex = o.pipe.BeginWithout(view, session, at, without)
	// The claims have the rest of the time that the request may wait for the store in all.
	if left := o.store.Budget() - waited; left > 0 {
		c.claim(r.Context(), left, without, at)
	}
	if c.ex.Interceptor.Lost {
		hiddenLost.Inc()
	}
	if c.ex.Prompt.Err != nil {
		httpx.FailOpen(reasonSplice)
		o.notes.warn(r, format, bypass{reason: reasonSplice, err: c.ex.Prompt.Err})
	}
	return c, why
}

// claim makes new edits of the request durable before they are sent. It waits for the store at most
// for a duration.
func (c *requestState) claim(ctx context.Context, left time.Duration, without wire.EditKinds, at time.Time) {
	claim := func(left time.Duration) bool {
		ctx, cancel := context.WithTimeout(ctx, left)
		defer cancel()
		return c.ex.Claim(ctx, c.site.store.Store)
	}
	begun := time.Now()
	if claim(left) {
		return
	}
	waited := time.Since(begun)
	c.ex.Abandon() // another process was faster: its edits count
	c.ex = c.site.pipe.BeginWithout(c.view, c.session, at, without)
	claim(left - waited)
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
	if host := b[at:]; bytes.IndexFunc(host, isUpper) >= 0 {
		b = append(b[:at], bytes.ToLower(host)...)
	}
	return reuse.Intern(append(b, wire.Base(path)...))
}

// isUpper reports whether a character may have another in lower case.
func isUpper(c rune) bool { return c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' }

// announce makes the session known to the handlers after this one and to the
// access log.
func (c *requestState) announce(r *http.Request) {
	ctx := r.Context()
	caddyhttp.SetVar(ctx, "llm_session", c.session.ID())
	caddyhttp.SetVar(ctx, "llm_lineage", c.view.First())
	c.books.logged = logged{session: c.session.ID(), user: c.asker.person.Name, model: audit.Bounded(c.view.Model)}
	if extra, ok := ctx.Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Set(zap.Inline(&c.books.logged))
	}
	if repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Map(c.placeholder)
	}
}
