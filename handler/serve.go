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
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/local"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/warm"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/websocket"
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
	if websocket.Asked(r) {
		return o.serveSocket(w, r, next)
	}
	if f, ok := o.up.CompactsElsewhere(r); ok {
		return upstream.RefuseCompact(w, f)
	}
	if format, ok := wire.DetectCount(r.Method, r.URL.Path); ok && (o.estimates(format) || unreadable(r.Header) == "" && o.up.Sealed(r) == nil && !caddyhttp.IsIncremental(r.Header)) {
		return o.serveCount(w, r, next, format)
	}
	format, ok := wire.Detect(r.Method, r.URL.Path)
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
	x := &exchange{passage: passage{site: o, purpose: conversing, format: format}, next: next, host: r.Host}
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
	edit     *pipeline.Exchange // the prompt as edited, and what the session learns of the answer
	own      *retain.Own        // the client's own request, if it goes on from an answer and the view is of the whole
	rethread func()             // puts that reference back into the request, nil without one
	overhead time.Duration      // our own time before the request was sent upstream

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
		return budget.FailStalled(w, x.format)
	case errors.Is(err, httpx.ErrTooLarge):
		o.records.count(outcomeRefused)
		return failBody(w, r, x.format, err)
	case err != nil:
		return failBody(w, r, x.format, err)
	}

	started := time.Now()
	o.words.arrives()
	why := x.prepare(r)
	if why.view != nil {
		return o.refuse(w, r, why)
	}
	x.came.settle(x)
	if why.reason != "" {
		o.notes.pass(w, r, x.format, why)
		o.records.count(outcomePassed)
		return passBody(w, r, o.unknown(r, unparsed, x.format).through(x.next), &x.came.Payload)
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
		reserved, refused, err := o.afford(w, r, x.person, x.view, mostOf(x.edit, &x.view.Reply))
		if refused {
			o.guard("giving up a request", x.edit.Abandon)
			return err
		}
		defer reserved.Settle()
	}
	var err error
	if alive := x.heartbeat(w, r); alive != nil {
		defer alive.Stop()
		err = alive.End(x.forward(alive, r, started))
	} else {
		err = x.forward(w, r, started)
	}
	if x.purpose != aside {
		x.warmed()
	}
	if err != nil { // error routes read the request
		return err
	}
	if x.purpose != aside {
		x.foldIdly()
		x.leaveOut()
	}
	x.recycle(r)
	return nil
}

// receive reads the client's body. With [httpx.ErrNoRoom] the beginning of it lies in memory.
func (x *exchange) receive(w http.ResponseWriter, r *http.Request) error {
	x.came.begin(x.site, r, x.format)
	if err := x.came.receive(w, r); err != nil {
		return err
	}
	if x.site.up.Target(x.format) == x.format {
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
			x.view, x.session, x.edit = nil, nil, nil
			why = bypass{reason: httpx.Panic}
		}
		if x.edit == nil && x.rethread != nil {
			x.rethread()
		}
	}()
	if x.came.Undone() != nil {
		return x.came.why
	}

	// Parse: the parts that the tenant's conversations have sent before are recognised.
	x.tenant = o.store.Tenants().Of(r)
	var unthreaded []byte
	view, err := o.parse(x.format, x.came.body(), x.tenant)
	if err == nil && !view.Conversation.Thread.Empty() && !o.up.Holds(x.format) {
		// The provider keeps no threads: the request becomes one of its own.
		if view.Conversation.Partial {
			return bypass{err: upstream.ErrUnheld, view: view}
		}
		if unthreaded, x.rethread, err = upstream.Unthread(r, x.came.Data, x.came.body()); err == nil {
			if view, err = o.parse(x.format, unthreaded, x.tenant); err == nil {
				view.Conversation.Unthreaded = true
			}
		}
	}
	if err != nil {
		return bypass{reason: reasonParse, err: err}
	}
	if o.up.Target(x.format) == x.format && !o.up.Holds(x.format) {
		if what := upstream.ProvidersOnly(view); what != "" {
			return bypass{err: what, view: view}
		}
	}
	// A request that goes on from an answer is edited and accounted for as the whole conversation.
	if whole, own := o.joined(r, x.tenant, view, &x.came); whole != nil {
		view, x.own = whole, own
	}
	view.Address(r.URL.Path, r.URL.RawQuery)
	x.view = view

	// Acquire the session, and edit the prompt by what it knows of the conversation.
	acquiring := time.Now()
	x.session = o.store.Acquire(r.Context(), o.sessionKey(r, x.tenant, view))
	waited := time.Since(acquiring)
	x.sessionID = x.session.ID()
	websocket.InSession(r.Context(), x.sessionID)
	x.person = o.clients.people.OfTenant(r, o.persons(), x.tenant, translate.KeyHeader(x.format))
	x.tellAll = o.tellsAll(r.Header)
	x.began = time.Now()
	x.session.SetLifetime(o.keeper.Lifetime(o.keepalive, r, x.tenant))
	at := o.now()
	x.refusal.route = x.routeOf(r)
	without := o.refused.Without(x.refusal.route, x.tenant, at)
	x.edit = o.pipe.BeginWithout(view, x.session, at, without)
	// The claims have the rest of the time that the request may wait for the store in all.
	if left := o.store.Budget() - waited; left > 0 {
		x.claim(r.Context(), left, without, at)
	}
	if x.edit.Interceptor.Lost {
		hiddenLost.Inc()
	}
	if err := x.edit.Prompt.Err; err != nil { // the prompt goes out as it came
		httpx.FailOpen(reasonSplice)
		o.notes.warn(r, x.format, bypass{reason: reasonSplice, err: err})
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
		return x.edit.Claim(ctx, x.site.store.Store)
	}
	begun := time.Now()
	if claim(left) {
		return
	}
	waited := time.Since(begun)
	x.edit.Abandon() // another process was faster: its edits count
	x.edit = x.site.pipe.BeginWithout(x.view, x.session, at, without)
	claim(left - waited)
}

// route tells the layers behind the handler what they need of the request, and chooses those that it
// passes. The client's request must not have been changed yet.
func (x *exchange) route(r *http.Request) {
	o := x.site
	if way := selfrequest.Passing(r); o.keepalive != nil || o.sharing.warm != nil || o.sharing.fold != nil || way.Behind > 0 {
		x.target = x.targets(r, way)
	}
	if o.sharing.warm != nil {
		x.prompt = &warm.Prompt{Tenant: x.tenant, View: x.view, Side: isSide(r.Header)}
	}
	x.unkept = x.rethread != nil
	x.ticket = x.newTicket(r)
	if x.edit.Prompt.Applied != nil {
		x.cleared = func() *wire.Cleared { return x.edit.Prompt.Applied } // nil once edits are given up
	}
	if o.holding.letta != nil {
		x.named = namedID(r.Header, o.clients.named, x.view)
	}
	if x.isAside(r) {
		x.purpose = aside
	}
	if x.threads = x.threadKeeper(r); x.threads == nil {
		x.carried = x.mayBeCarried()
	}
	x.front = x.newFront(r)
	x.next = x.through(x.next)
}

// heartbeat returns the writer for a stream, nil if the client gets no signs of life.
func (x *exchange) heartbeat(w http.ResponseWriter, r *http.Request) *local.Alive {
	every, open := x.site.sharing.heartbeat.Intervals(x.site.up.Upstream)
	if every == 0 {
		return nil
	}
	return local.Stream{Every: every, Open: open, Events: x.view.Reply.Stream, Format: x.format, Agent: r.UserAgent(), Stamp: func(to http.Header) {
		switch {
		case !x.site.up.Headers:
		case x.tellAll:
			to[headerSession], to[headerPolicy] = []string{x.sessionID}, []string{string(x.edit.Policy)}
		default:
			to[headerBrief] = []string{x.brief()}
		}
		if p := x.place.Load(); p != nil {
			p.Stamp(to)
		}
	}}.Begin(w)
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
	countRequest(x.edit, x.overhead)
	w, end := x.withoutUsageChunk(w)
	defer end()

	edits := x.mayBeEdited()
	if edits {
		o.refused.Sent(x.tenant, x.refusal.route.Upstream)
	}
	x.refusal.additions.Off = x.edit.Without()
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
	caddyhttp.SetVar(ctx, "llm_session", x.sessionID)
	caddyhttp.SetVar(ctx, "llm_lineage", x.view.First())
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
	if x.edit.Interceptor.Intercepts() { // the model may call our tool, or write one of our stubs
		i := NewInterceptor(w, &x.tap, &x.edit.Interceptor, x.format, x.site.up.Log)
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
	case x.edit.Prompt.Edited || x.own != nil:
		x.out.Data = x.edit.Prompt.Body
		httpx.SetLength(r, len(x.edit.Prompt.Body))
	default:
		x.out.Data = x.came.Data
		if coded {
			x.out.Decoded(x.view.Raw, nil)
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
		x.edit.Join(x.tap.turn())
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
			return httpx.FailUnreached(t.ResponseWriter, t.request, x.format, err)
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
			x.edit.Commit(x.turn, x.site.now())
			x.noteCut()
			x.hold()
			x.publish()
			x.keepFolded(x.edit.Interceptor.Folded())
			return
		case err != nil || x.status/100 != 2:
			word = outcomeFailed
		}
		x.edit.Abandon()
	})
	if x.purpose == conversing { // side requests may go elsewhere
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
		x.edit.Interceptor.Correct(t, x.answers())
	}
	if t != nil {
		t.Service = t.Service.Or(x.service)
	}
	if x.bounded = x.edit.Bound(t); x.bounded {
		boundedUsages.Inc()
		tellBounded.Do(func() {
			x.site.up.Log.Warn("upstream reports more tokens than the model's window or the request's max_tokens allow, charging no more than these", zap.String("model", x.view.Model))
		})
	}
	// A server that reports no cache reads has read what the prompt has in common with the one before.
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
	if !x.edit.Lesson.CutShort || !x.site.up.Local() {
		return
	}
	cutPrompts.Inc()
	model := audit.Bounded(x.site.up.Model(x.view.Model))
	if x.site.cutModels.Meet(model, "") {
		x.site.up.Log.Warn("upstream leaves the oldest messages of prompts out, its context length is too low",
			zap.String("model", model), zap.Int64("counted_tokens", x.turn.Usage.Prompt()), zap.Int("estimated_tokens", x.sent()))
	}
}

// keepFolded stores the texts folded in this request, for the case that the client drops them from
// its history.
func (x *exchange) keepFolded(all []pipeline.Block) {
	for _, b := range all {
		x.site.store.Blocks.Put(x.session, x.view.First(), b.Name, b.Text)
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
	if _, accepted := x.edit.Committed(); accepted || x.session.Number() > 0 { // else there is nothing
		s.Forget(x.session)
	}
}

// recycle gives back the memory of the bodies and of their parsed forms once nothing can read them:
// after an answer without an error, for error routes read the request.
func (x *exchange) recycle(r *http.Request) {
	if x.resent {
		return
	}
	r.Body, r.GetBody = http.NoBody, nil
	x.out.Recycle()
	if x.edit.Prompt.Edited && x.own == nil {
		reuse.Recycle(x.came.Data)
	}
	if x.coded(r) && x.own == nil {
		reuse.Recycle(x.view.Raw)
	}
	if x.site.sharing.fold == nil { // which goes on with them
		x.edit.Close()
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
