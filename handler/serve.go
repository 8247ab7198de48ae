// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/feature"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// serve serves a client's request. Requests for an answer of a model become an [exchange]; the others
// have ways of their own.
func (o *site) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	for _, f := range o.features.serve {
		if served, err := f(w, r, next); served {
			return err
		}
	}
	format, ok := wire.Detect(r.Method, r.URL.Path)
	if !ok {
		if f, ok := o.up.CompactsElsewhere(r); ok {
			return upstream.RefuseCompact(w, f)
		}
		if f, ok := wire.DetectCount(r.Method, r.URL.Path); ok && (o.estimates(f) || unreadable(r.Header) == "" && o.up.Sealed(r) == nil && !caddyhttp.IsIncremental(r.Header)) {
			return o.serveCount(w, r, next, f)
		}
	}
	if ok && o.records.sink.Refuses() {
		o.records.count(outcomeUnrecorded)
		return httpx.Fail(w, format, &translate.Failure{
			Status: http.StatusServiceUnavailable, RetryAfter: recordRetry, Message: "requests cannot be put on record at the moment, try again later",
		})
	}
	paid := ok || isPaid(r)
	if paid && o.bounded() { // a request that cannot be read is refused, too, once a budget is spent
		reserved, refused, err := o.afford(w, r, o.whose(r), &wire.View{Format: formatAt(r)}, allowance.Spent{})
		if refused {
			return err
		}
		reserved.Settle()
	}
	if !ok || !o.up.Understands(format) || caddyhttp.IsIncremental(r.Header) {
		switch {
		case r.Method != http.MethodPost:
		case needsNoSlot(r.URL.Path):
			next = o.unknown(r, slotless, format).through(next)
		default: // work for a local server, of an unknown kind
			next = o.unknown(r, unlooked, format).through(next)
		}
		if x, is := resource.Find(r.Method, r.URL.Path); is && !ok {
			next = resourceLayer(next, o.up, x, o.forgets(r, &x))
		}
		if paid && !ok {
			return o.serveOther(w, r, next)
		}
		return next.ServeHTTP(w, r)
	}

	why := bypass{reason: unreadable(r.Header)}
	if err := o.up.Sealed(r); err != nil && why.reason == "" {
		why = bypass{reason: reasonSigned, err: err}
	}
	if why.reason != "" {
		o.notes.pass(w, r, format, why)
		o.records.count(outcomePassed)
		return o.unknown(r, unlooked, format).through(next).ServeHTTP(w, r)
	}
	if !o.store.Pin() { // the configuration is gone and this request came late
		o.notes.pass(w, r, format, bypass{reason: reasonStore})
		o.records.count(outcomePassed)
		return next.ServeHTTP(w, r)
	}
	defer o.store.Unpin()
	x := &exchange{passage: passage{site: o, Request: feature.Request{Purpose: conversing, Format: format}}, next: next, host: r.Host}
	defer x.came.share.Close()
	return x.serve(w, r)
}

// exchange is one request for an answer of a model, from its first byte to its accounts. Its methods
// stand in the order in which they run.
type exchange struct {
	passage // what the layers between handler and upstream know of it

	next   caddyhttp.Handler
	came   arrival // the client's body, and the memory reserved for it
	began  time.Time
	host   string // to which the request was addressed
	person tenant.Person
	client string // the program

	// Set by prepare.

	session  *sessioncache.Session
	rethread func()        // restores the client's request for a thread, nil without one
	overhead time.Duration // our own time before the request was sent upstream

	// On the way to the upstream.

	target  func(body []byte) *selfrequest.Target // of requests of our own for this conversation, nil where none are sent
	out     *httpx.Payload                        // goes upstream
	sending httpx.Payload                         // is out, the first time
	refusal refusal

	// The answer. Most requests need one tap, which shares the allocation.

	tap       tap
	plain     func() bool               // nil where nothing is hidden from the client
	answers   func() []hidden.Iteration // that its message is made of, nil likewise
	continued []continuation
	outcome
}

// serve takes the request to the upstream and its answer to the client.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request) error {
	o := x.site
	switch err := x.receive(w, r); {
	case errors.Is(err, httpx.ErrNoRoom):
		return o.passUnread(w, r, x.next, &x.came)
	case errors.Is(err, budget.ErrStalled):
		o.records.count(outcomeStalled)
		return budget.FailStalled(w, x.Format)
	case errors.Is(err, httpx.ErrTooLarge):
		o.records.count(outcomeRefused)
		return failBody(w, r, x.Format, err)
	case err != nil:
		return failBody(w, r, x.Format, err)
	}

	started := time.Now()
	for _, f := range o.features.arrive {
		f()
	}
	why := x.prepare(r)
	if why.view != nil {
		return o.refuse(w, r, why)
	}
	x.came.settle(x)
	if why.reason != "" {
		o.notes.pass(w, r, x.Format, why)
		o.records.count(outcomePassed)
		return passBody(w, r, o.unknown(r, unparsed, x.Format).through(x.next), &x.came.Payload)
	}
	if x.rethread != nil {
		defer x.rethread()
	}
	defer x.release()
	ctx := r.Context()
	x.span = x.trace(ctx)
	defer x.endSpan(ctx)
	defer o.noteHost(ctx)

	x.route(r)
	if o.bounded() {
		reserved, refused, err := o.afford(w, r, x.person, x.View, mostOf(x.Edit, &x.View.Reply))
		if refused {
			o.guard("giving up a request", x.Edit.Abandon)
			return err
		}
		defer reserved.Settle()
	}
	err := x.attend(w, r, started)
	goesOn := x.answered(err)
	if err != nil { // error routes read the request
		return err
	}
	x.recycle(r, goesOn)
	return nil
}

// receive reads the client's body. With [httpx.ErrNoRoom] the beginning of it lies in memory.
func (x *exchange) receive(w http.ResponseWriter, r *http.Request) error {
	x.came.begin(x.site, r, x.Format)
	if err := x.came.receive(w, r); err != nil {
		return err
	}
	if x.site.up.Target(x.Format) == x.Format {
		x.site.guard("taking sealed reasoning out", func() { x.came.unseal(r) })
	}
	return nil
}

// prepare parses the request, finds its session and edits its prompt. It returns a reason where the
// original is to be forwarded untouched, or a view where it is to be refused. A panic in here costs the
// request nothing.
func (x *exchange) prepare(r *http.Request) (why bypass) {
	o := x.site
	defer func() {
		if p := recover(); p != nil {
			httpx.LogPanic(o.up.Log, "preparing a request", p)
			if x.session != nil {
				o.store.Release(x.session)
			}
			x.View, x.session, x.Edit = nil, nil, nil
			why = bypass{reason: httpx.Panic}
		}
		if x.Edit == nil && x.rethread != nil {
			x.rethread()
		}
	}()
	if x.came.Undone() != nil {
		return x.came.why
	}

	// Parse: the parts that the tenant's conversations have sent before are recognised.
	x.Tenant = o.store.Tenants().Of(r)
	var unthreaded []byte
	view, err := o.parse(x.Format, x.came.body(), x.Tenant)
	if err == nil && !view.Conversation.Thread.Empty() && !o.up.Holds(x.Format) {
		// The provider keeps no threads: the request becomes one of its own.
		if view.Conversation.Partial {
			return bypass{err: upstream.ErrUnheld, view: view}
		}
		if unthreaded, x.rethread, err = upstream.Unthread(r, x.came.Data, x.came.body()); err == nil {
			if view, err = o.parse(x.Format, unthreaded, x.Tenant); err == nil {
				view.Conversation.Unthreaded = true
			}
		}
	}
	if err != nil {
		return bypass{reason: reasonParse, err: err}
	}
	if o.up.Target(x.Format) == x.Format && !o.up.Holds(x.Format) {
		if what := upstream.ProvidersOnly(view); what != "" {
			return bypass{err: what, view: view}
		}
	}
	// A request that goes on from an answer is edited and accounted for as the whole conversation.
	for _, f := range o.features.complete {
		if whole := f(r, &x.Request, view, func(n int64) bool { return x.came.room(r, n) }); whole != nil {
			view, x.Partial = whole, true
			break
		}
	}
	view.Address(r.URL.Path, r.URL.RawQuery)
	x.View = view

	// Acquire the session, and edit the prompt by its record of the conversation.
	acquiring := time.Now()
	key := o.sessionKey(r, x.Tenant, view)
	x.Upstream = key.Upstream
	x.session = o.store.Acquire(r.Context(), key)
	waited := time.Since(acquiring)
	x.Session = x.session.ID()
	x.Side = isSide(r.Header)
	x.person = o.clients.people.OfTenant(r, o.persons(), x.Tenant, x.Format.Traits().KeyHeader)
	x.tellAll = o.tellsAll(r.Header)
	x.began = time.Now()
	x.session.SetLifetime(o.keeper.Lifetime(o.keepalive, r, x.Tenant))
	at := o.now()
	x.refusal.route = x.routeOf(r)
	without := o.refused.Without(x.refusal.route, x.Tenant, at)
	x.Edit = o.pipe.BeginWithout(view, x.session, at, without)
	// The claims have the rest of the time that the request may wait for the store in all.
	if left := o.store.Budget() - waited; left > 0 {
		x.claim(r.Context(), left, without, at)
	}
	if x.Edit.Interceptor.Lost {
		hiddenLost.Inc()
	}
	if err := x.Edit.Prompt.Err; err != nil { // the prompt goes out as it came
		httpx.FailOpen(reasonSplice)
		o.notes.warn(r, x.Format, bypass{reason: reasonSplice, err: err})
	}
	if x.rethread != nil { // from here on the client might have sent it so
		x.came.Data = unthreaded
		x.came.Decoded(nil, nil)
	}
	return bypass{}
}

// claim makes new edits of the request durable before they are sent. It waits for the store at most
// for a duration.
func (x *exchange) claim(ctx context.Context, left time.Duration, without wire.EditKinds, at time.Time) {
	claim := func(left time.Duration) bool {
		ctx, cancel := context.WithTimeout(ctx, left)
		defer cancel()
		return x.Edit.Claim(ctx, x.site.store.Store)
	}
	begun := time.Now()
	if claim(left) {
		return
	}
	waited := time.Since(begun)
	x.Edit.Abandon() // another process was faster: its edits count
	x.Edit = x.site.pipe.BeginWithout(x.View, x.session, at, without)
	claim(left - waited)
}

// route fills in the inputs of the layers, and puts those of the request before the next handler. The client's request must not have been changed yet.
func (x *exchange) route(r *http.Request) {
	o := x.site
	if way := selfrequest.Passing(r); o.keepalive != nil || o.features.sends != 0 || way.Behind > 0 {
		x.target = x.targets(r, way)
	}
	x.Person, x.Name = x.person.Name, namedID(r.Header, o.clients.named, x.View)
	x.unkept = x.rethread != nil
	if x.Edit.Prompt.Applied != nil {
		x.cleared = func() *wire.Cleared { return x.Edit.Prompt.Applied } // nil once edits are given up
	}
	if o.sides != nil && (x.Side || !x.Edit.OffersTools()) && !x.Edit.Summarizes() {
		x.Purpose = aside
	}
	x.front = x.newFront(r)
	x.next = x.through(x.next)
}

// attend forwards the request, with the features' writers before the client.
func (x *exchange) attend(w http.ResponseWriter, r *http.Request, started time.Time) error {
	for _, f := range x.site.features.attend {
		if a := f(w, r, &x.Request, x.stampEarly); a != nil {
			defer a.Stop()
			return a.End(x.forward(a, r, started))
		}
	}
	return x.forward(w, r, started)
}

// forward sends the request to the upstream, once more without our edits if the upstream refuses it
// with them, and sees the answer to the client.
func (x *exchange) forward(w http.ResponseWriter, r *http.Request, started time.Time) error {
	o := x.site
	defer x.visits(r)() // the conversation is not idle meanwhile
	x.trailers = httpguts.HeaderValuesContainsToken(r.Header["Te"], "trailers")
	x.overhead = time.Since(started)
	x.client = audit.ClientName(first(r.Header, "User-Agent"))
	x.announce(r)
	countRequest(x.Edit, x.overhead)
	w, end := x.withoutUsageChunk(w)
	defer end()

	edits := x.mayBeEdited()
	if edits {
		o.refused.Sent(x.Tenant, x.refusal.route.Upstream)
	}
	x.refusal.additions.Off = x.Edit.Without()
	x.refusal.additions.Attach(r.Context())
	httpx.ForgetUpstreamStatus(r.Context())
	t := newTap(w, x)
	if !edits {
		return x.finish(x.send(t, r))
	}
	err := httpx.Retry(t, r, &resend{x})
	if x.resent {
		x.weigh(t.told(t.Status))
	}
	return x.finish(err)
}

// announce makes the turn known before it is sent: to the handlers behind this one, to the access log,
// and to the audit store, where it is on record even if the process ends first.
func (x *exchange) announce(r *http.Request) {
	ctx := r.Context()
	caddyhttp.SetVar(ctx, "llm_session", x.Session)
	caddyhttp.SetVar(ctx, "llm_lineage", x.View.First())
	x.site.guard("opening a record", x.open)
	if extra, ok := ctx.Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Set(zap.Inline(x))
	}
	if repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Map(x.placeholder)
	}
}

// send forwards the request once, with w for the answer. The client's request is restored afterwards.
func (x *exchange) send(w http.ResponseWriter, r *http.Request) error {
	x.tap.begin(r)
	header, length, coding := r.Header, r.ContentLength, r.TransferEncoding
	x.substitute(r)
	defer func() { // for the access log and for error routes
		r.Header, r.ContentLength, r.TransferEncoding = header, length, coding
		x.came.Attach(r)
	}()
	if x.Edit.Interceptor.Intercepts() { // the model may call our tool, or write one of our stubs
		i := NewInterceptor(w, &x.tap, &x.Edit.Interceptor, x.Format, x.site.up.Log)
		x.plain, x.answers = i.Plain, i.Answers
		return i.Serve(r, x.next)
	}
	return x.pass(w, r, x.next)
}

// substitute puts the body to send into the request and asks for an answer that can be read.
func (x *exchange) substitute(r *http.Request) {
	coded := x.coded(r)
	r.Header = httpx.ClonePlain(r.Header) // handlers behind may write into the values
	delete(r.Header, headerMode)
	if x.out == nil {
		x.out = &x.sending
	} else { // a transport may still be sending the first
		x.out = new(httpx.Payload)
	}
	switch {
	case x.Edit.Prompt.Edited || x.Partial:
		x.out.Data = x.Edit.Prompt.Body
		httpx.SetLength(r, len(x.Edit.Prompt.Body))
	default:
		x.out.Data = x.came.Data
		if coded {
			x.out.Decoded(x.View.Raw, nil)
		}
	}
	x.out.Attach(r)
}

// coded reports whether the client sent the body in a content coding.
func (x *exchange) coded(r *http.Request) bool { return httpx.Coding(r.Header) != "" }

// pass runs the handlers behind this one. If they panic, as reverse_proxy does for an answer that is
// cut, the client gets the bytes so far and the panic goes on. Without any, as when Caddy's abort closes
// the connection, the client gets nothing.
func (x *exchange) pass(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	t := &x.tap
	returned := false
	defer func() {
		if returned || t.dropped && r.Context().Err() == nil { // a refusal that is cut is one all the same
			return
		}
		x.settle(nil)
		if i, ok := w.(*Interceptor); ok {
			i.Spill()
		}
		if t.Status != 0 {
			_ = t.release()
			t.flushAll()
		}
	}()
	err := next.ServeHTTP(w, r)
	returned = true
	return err
}

// join makes the request part of its conversation as soon as the stop reason is there. In chat
// completions and Gemini the usage, or the end of the stream, comes later, and some clients send the
// next request before it.
func (x *exchange) join() {
	if x.joined || x.settled || x.tap.Status/100 != 2 || x.plain != nil && !x.plain() {
		return
	}
	x.joined = true
	x.site.guard("joining a conversation", func() {
		x.Edit.Join(x.tap.turn())
		x.hold()
		x.untold = true
	})
}

// tell publishes a conversation that was joined, unless it was settled by the same piece of the answer:
// most answers end in one, and others need to see it once.
func (x *exchange) tell() {
	if x.untold {
		x.site.guard("joining a conversation", x.publish)
	}
}

// hold keeps the session, once, from the first answer on.
func (x *exchange) hold() {
	if x.session.Number() == 0 {
		x.site.store.Hold(x.session)
	}
}

// publish shows the conversation to other processes, where they share the store.
func (x *exchange) publish() {
	x.untold = false
	x.site.store.Publish(x.session)
}

// finish ends a pass that was not cut. The session learns of the answer before the client has the last
// of it, so that the next request finds it known.
func (x *exchange) finish(err error) error {
	t := &x.tap
	t.flushes.Settle()
	if err == nil {
		t.end()
	}
	x.settle(err)
	if t.Status == 0 {
		if err != nil {
			x.stamp(t.ResponseWriter.Header())
			return httpx.FailUnreached(t.ResponseWriter, t.request, x.Format, err)
		}
		return nil
	}
	if e := t.release(); e != nil && err == nil {
		return e
	}
	x.stampTrailer()
	return err
}

// settle ends the exchange, once: at the last event of a stream, or where the handlers behind return or
// panic. The session learns of the answer, and the outcome is told. An answer of which nothing but its
// price was missing has ended.
func (x *exchange) settle(err error) {
	if x.settled {
		return
	}
	x.settled = true
	x.status = x.tap.Status
	word := outcomeInterrupted
	x.site.guard("settling an exchange", func() {
		x.readTurn()
		switch {
		case err == nil && x.status/100 == 2 && x.turn != nil && (x.turn.Done || x.joined) && !x.turn.Failed():
			word = outcomeCompleted
			x.Edit.Commit(x.turn, x.site.now())
			x.noteCut()
			x.hold()
			x.publish()
			x.keepFolded(x.Edit.Interceptor.Folded())
			return
		case err != nil || x.status/100 != 2:
			word = outcomeFailed
		}
		x.Edit.Abandon()
	})
	if x.Purpose == conversing { // side requests may go elsewhere
		x.site.reach.Note(x.status != 0, err)
	}
	x.report(word)
}

// readTurn takes the answer from the decoder, with its usage as far as it can be believed.
func (x *exchange) readTurn() {
	t := x.tap.turn()
	if t == nil && x.status/100 == 2 {
		t = new(wire.Turn) // an answer that cannot be read has a price, too
	}
	x.turn = t
	if x.answers != nil {
		x.Edit.Interceptor.Correct(t, x.answers())
	}
	if t != nil {
		t.Service = t.Service.Or(x.service)
	}
	if x.bounded = x.Edit.Bound(t); x.bounded {
		boundedUsages.Inc()
		tellBounded.Do(func() {
			x.site.up.Log.Warn("upstream reports more tokens than the model's window or the request's max_tokens allow, charging no more than these", zap.String("model", x.View.Model))
		})
	}
	// Without reported cache reads, the estimate is the prefix common with the prompt before.
	if t != nil && !x.site.up.Reports() && t.Usage.Reported && t.Usage.Read == 0 {
		u := &t.Usage
		u.Read = min(int64(x.common*float64(u.Prompt())), u.Uncached)
		u.Uncached -= u.Read
		x.estimated = true
	}
}

// noteCut counts a prompt of which a local server has left a part out, and has the log say so once for
// each model.
func (x *exchange) noteCut() {
	if !x.Edit.Lesson.CutShort || !x.site.up.Local() {
		return
	}
	cutPrompts.Inc()
	model := audit.Bounded(x.site.up.Model(x.View.Model))
	if x.site.cutModels.Meet(model, "") {
		x.site.up.Log.Warn("upstream leaves the oldest messages of prompts out, its context length is too low",
			zap.String("model", model), zap.Int64("counted_tokens", x.turn.Usage.Prompt()), zap.Int("estimated_tokens", x.sent()))
	}
}

// keepFolded stores the texts folded in this request, for the case that the client drops them from
// its history.
func (x *exchange) keepFolded(all []pipeline.Block) {
	for _, b := range all {
		x.site.store.Blocks.Put(x.session, x.View.First(), b.Name, b.Text)
	}
}

// release ends the request's hold on its session, and forgets a session that was deleted meanwhile: the
// request may have left something of it.
func (x *exchange) release() {
	s := x.site.store
	s.Release(x.session)
	if !x.session.Gone() {
		return
	}
	if _, accepted := x.Edit.Committed(); accepted || x.session.Number() > 0 { // else there is nothing
		s.Forget(x.session)
	}
}

// recycle gives back the memory of the bodies and of their parsed forms once nothing can read them:
// after an answer without an error, for error routes read the request. A feature that goes on with the
// prompt keeps it.
func (x *exchange) recycle(r *http.Request, goesOn bool) {
	if x.resent {
		return
	}
	r.Body, r.GetBody = http.NoBody, nil
	x.out.Recycle()
	if x.Edit.Prompt.Edited && !x.Partial {
		reuse.Recycle(x.came.Data)
	}
	if x.coded(r) && !x.Partial {
		reuse.Recycle(x.View.Raw)
	}
	if !goesOn {
		x.Edit.Close()
	}
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
