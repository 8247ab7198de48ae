// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
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
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// serve serves a client's request. Requests for an answer of a model become an [exchange]; the others
// have ways of their own.
func (o *site) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	// A chunked body gets a length on each path below that leaves it as it is; edited ones have one anyway.
	if r.ContentLength < 0 && r.Method != http.MethodConnect && o.up.Local() {
		next = o.withLength(next)
	}
	if len(r.Header["Upgrade"]) > 0 {
		for _, f := range o.features {
			if f.Serve == nil {
				continue
			}
			if served, err := f.Serve(w, r, next); served {
				return err
			}
		}
	}
	format, ok := wire.Detect(r.Method, r.URL.Path)
	if !ok {
		if f, elsewhere := o.up.CompactsElsewhere(r); elsewhere {
			return upstream.RefuseCompact(w, f)
		}
		f, counts := wire.DetectCount(r.Method, r.URL.Path)
		if counts && (o.estimates(f) || unreadable(r.Header) == "" && o.up.Sealed(r) == nil &&
			!caddyhttp.IsIncremental(r.Header)) {
			return o.serveCount(w, r, next, f)
		}
	}
	if ok && o.records.sink != nil && o.records.sink.Refuses() {
		return o.denyUncounted(w, format, "the record of requests fails", "requests cannot be put on record at the moment")
	}
	if !ok && r.Method == http.MethodGet && o.bounded() && strings.HasSuffix(r.URL.Path, pathUsage) {
		if served, err := o.serveUsage(w, r); served {
			return err
		}
	}
	paid := ok || isPaid(r)
	if paid || len(r.Header["Upgrade"]) > 0 {
		next = o.onlyAllowed(next, r) // until the model has been read
	}
	if paid && o.bounded() && fallenOf(r) == nil { // a request that cannot be read is refused, too, once a budget is spent
		reserved, refused, err := o.afford(w, r, o.userOf(r), "", &wire.View{Format: formatAt(r)}, allowance.Spent{Requests: 1})
		if refused {
			return err
		}
		reserved.Release()
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
		o.bypasses.pass(w, r, format, why)
		o.records.count(outcomePassed)
		return o.unknown(r, unlooked, format).through(next).ServeHTTP(w, r)
	}
	if !o.store.Pin() { // the configuration is gone and this request came late
		o.bypasses.pass(w, r, format, bypass{reason: reasonStore})
		o.records.count(outcomePassed)
		return next.ServeHTTP(w, r)
	}
	defer o.store.Unpin()
	x := o.newExchange(r, format, next)
	defer x.came.share.Close()
	if o.fallback != nil {
		return x.serveEither(w, r)
	}
	return x.serve(w, r)
}

func (o *site) newExchange(r *http.Request, format wire.Format, next caddyhttp.Handler) *exchange {
	return &exchange{
		passage: passage{site: o, Request: feature.Request{Purpose: conversing, Format: format}}, next: next,
		host: r.Host,
	}
}

// exchange is one request for an answer of a model, from its first byte to its accounts. Its methods
// stand in the order in which they run.
type exchange struct {
	passage // what the layers between handler and upstream know of it

	next caddyhttp.Handler
	came arrival // the client's body, and the memory reserved for it
	host string  // to which the request was addressed
	user tenant.User

	reserved *allowance.Reservation // of the user's budgets

	fallback *fallback // nil for a request that no fallback may serve

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
	intercept *interceptWriter // nil where nothing is hidden from the client
	continued []continuation
	outcome
}

// serve takes the request to the upstream and its answer to the client.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request) error {
	o := x.site
	x.came.begin(o, r, x.Format)
	x.Tenant = x.came.share.Owner.Tenant
	switch err := x.came.receive(w, r); {
	case errors.Is(err, httpx.ErrNoRoom):
		return o.passUnread(w, r, x.next, x.Format, &x.came)
	case errors.Is(err, budget.ErrStalled):
		o.records.count(outcomeStalled)
		return budget.FailStalled(w, x.Format)
	case errors.Is(err, httpx.ErrTooLarge):
		o.records.count(outcomeRefused)
		return failBody(w, r, x.Format, err)
	case err != nil:
		return failBody(w, r, x.Format, err)
	}
	if x.fallback != nil {
		x.fallback.body = x.came.Data
	}
	started := time.Now()
	for _, f := range o.features {
		if f.Arrive != nil {
			f.Arrive()
		}
	}
	why := x.prepare(r)
	if why.view != nil {
		return o.refuse(w, r, why)
	}
	x.came.shrink(x)
	if why.reason != "" {
		o.bypasses.pass(w, r, x.Format, why)
		o.records.count(outcomePassed)
		return passBody(w, r, o.unknown(r, unparsed, x.Format).through(x.next), &x.came.Payload)
	}
	if x.rethread != nil {
		defer x.rethread()
	}
	defer x.release()
	ctx := r.Context()
	if parent := trace.SpanFromContext(ctx); parent.IsRecording() { // Caddy traces this request
		x.span = x.trace(ctx, parent)
		defer x.endSpan(ctx)
	}
	defer func() { // the server that the request went to, if reverse_proxy has said so
		host := upstream.Reached(ctx, upstream.HostPort)
		o.reach.At(host)
		o.up.At(host)
	}()

	// The inputs of the layers, of the client's request before it is changed.
	// Internal requests follow the path of the site, which does not lead to a fallback.
	if way := selfrequest.Passing(r); fallenOf(r) == nil && (o.internal != 0 || way.Behind > 0) {
		x.target = x.targets(r, way)
	}
	x.User, x.Name = x.user.Name, namedID(r.Header, o.clients.named, x.View)
	x.unkept = x.rethread != nil
	if x.Edit.Prompt.Applied != nil {
		x.cleared = func() *wire.Cleared { return x.Edit.Prompt.Applied } // nil once edits are given up
	}
	if o.sides != nil && (x.Side || !x.Edit.OffersTools()) && !x.Edit.Summarizes() {
		x.Purpose = sideRequest
	}
	x.prefix = x.newPrefix(r)
	x.asksUsage = x.View.Reply.Stream && o.asksForUsage(x.View)
	if gate, ok := x.next.(*modelGate); ok {
		if !gate.allows(x.View.Model) {
			o.guard("giving up a request", x.Edit.Abandon)
			return o.denyModel(w, r, x.user, x.View, gate.models)
		}
		x.next = gate.next
	}
	x.next = x.through(x.next)

	if o.clients.refusesUnknown && !x.Edit.Rules().Known() {
		o.guard("giving up a request", x.Edit.Abandon)
		return o.denyUnknown(w, r, x.user, x.View)
	}
	if o.bounded() {
		reserved, refused, err := o.afford(w, r, x.user, x.record.Project, x.View, maxCost(x.Edit, &x.View.Reply))
		if refused {
			o.guard("giving up a request", x.Edit.Abandon)
			return err
		}
		x.reserved = reserved
		defer reserved.Release()
	}
	if x.fallback == nil {
		return x.attended(w, r, started)
	}
	if x.fallback.skips(x) {
		o.guard("giving up a request", x.Edit.Abandon)
		return nil
	}
	first := &firstTry{x, started}
	_, err := httpx.NewAttempt(w, first).Serve(first, r)
	return err
}

// attended forwards the request, with the features that act between the client and this handler or after the
// response.
func (x *exchange) attended(w http.ResponseWriter, r *http.Request, started time.Time) error {
	o := x.site
	var attendant feature.Attendant
	for _, f := range o.features {
		if f.Attend == nil {
			continue
		}
		if attendant = f.Attend(w, r, &x.Request, x.stampEarly); attendant != nil {
			defer attendant.Stop()
			w = attendant
			break
		}
	}
	err := x.forward(w, r, started)
	if attendant != nil {
		err = attendant.End(err)
	}
	goesOn := false // a feature goes on with the prompt
	for _, f := range o.features {
		if f.Answered != nil && x.Purpose != sideRequest && x.ended() {
			goesOn = f.Answered(&feature.Answered{
				Request: &x.Request, Turn: x.turn, Err: err, Resent: x.resent, SessionState: x.session, Target: x.target,
				Keep: x.keepFolded,
			}) || goesOn
		}
	}
	if err != nil || x.fallback != nil && x.fallback.reason != "" { // error routes or the fallback read the request
		return err
	}
	x.recycle(r, goesOn)
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
	var unthreaded []byte
	view, err := o.parse(x.Format, x.came.body(), x.Tenant)
	if o.up.Target(x.Format) == x.Format && (err != nil || view.Sealed()) {
		// Reasoning that was sealed here can be opened by the translation only. A request that is not
		// translated goes on as if its client had sent it without.
		if x.came.replace(r, seal.Remove(x.came.body())) {
			view, err = o.parse(x.Format, x.came.body(), x.Tenant)
		}
	}
	if err == nil && !view.Conversation.Thread.Empty() && !o.up.CanRetain(x.Format) {
		// The provider keeps no threads: the request becomes one of its own.
		if view.Conversation.Partial {
			return bypass{err: upstream.ErrUnretained, view: view}
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
	if o.up.Target(x.Format) == x.Format && !o.up.CanRetain(x.Format) {
		if what := upstream.ProvidersOnly(view); what != "" {
			return bypass{err: what, view: view}
		}
	}
	// A request that goes on from an answer is edited and accounted for as the whole conversation.
	for _, f := range o.features {
		if f.Complete == nil || !view.Conversation.Partial {
			continue
		}
		if whole := f.Complete(r, &x.Request, view, func(n int64) bool { return x.came.room(r, n) }); whole != nil {
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
	x.Side = first(r.Header, "X-Claude-Code-Request-Class") == "auxiliary" // Claude Code's hint to gateways
	x.user = o.clients.load().Users.OfTenant(r, o.userKey(), x.Tenant, x.Format.Traits().KeyHeader)
	x.tellAll = o.clients.headers == HeadersFull || first(r.Header, headerMode) == string(HeadersFull)
	x.record.At = time.Now()
	x.record.Project = o.projectOf(r, view, x.session)
	if t := fallenOf(r); t != nil {
		x.record.Fallback = t.reason
	}
	lifetime := sessioncache.LifetimeAsked
	if o.keepalive != nil {
		lifetime = o.keeper.Lifetime(o.keepalive, r, x.Tenant)
	}
	x.session.SetLifetime(lifetime)
	at := o.now()
	x.refusal.route = Route{Upstream: x.Upstream, Model: audit.Bounded(view.Model), Credential: tenant.CredentialKind(r)}
	without := o.refused.Without(x.refusal.route, x.Tenant, at)
	x.Edit = o.pipe.BeginWithout(view, x.session, at, without)
	// The claims have the rest of the time that the request may wait for the store in all.
	if left := o.store.Budget() - waited; left > 0 {
		x.claim(r.Context(), left, without, at)
	}
	if x.Edit.Answerer.Lost {
		interceptedLost.Inc()
	}
	if err := x.Edit.Prompt.Err; err != nil { // the prompt goes out as it came
		httpx.FailOpen(reasonSplice)
		o.bypasses.warn(r, x.Format, bypass{reason: reasonSplice, err: err})
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

// forward sends the request to the upstream, once more without our edits if the upstream refuses it
// with them, and sees the answer to the client.
func (x *exchange) forward(w http.ResponseWriter, r *http.Request, started time.Time) error {
	o := x.site
	if x.target != nil && !x.Edit.Holdout() { // sessions held out are not pinged
		defer x.visits(r)() // the conversation is not idle meanwhile
	}
	x.trailers = httpguts.HeaderValuesContainsToken(r.Header["Te"], "trailers")
	x.overhead = time.Since(started)
	x.record.Client = audit.ClientName(first(r.Header, "User-Agent"))

	// The turn is known before it is sent: to the handlers behind this one, to the access log, and to the
	// audit store, where it is on record even if the process ends first.
	ctx := r.Context()
	caddyhttp.SetVar(ctx, "llm_session", x.Session)
	caddyhttp.SetVar(ctx, "llm_conversation", x.View.First())
	o.guard("opening a record", x.open)
	if extra, ok := ctx.Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Set(zap.Inline(x))
	}
	if repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Map(x.placeholder)
	}
	metrics.overhead.Observe(x.overhead.Seconds())
	if x.Edit.Prompt.Edited {
		for _, f := range x.Edit.Prompt.Fired {
			metrics.edits.WithLabelValues(f.Stage).Add(float64(f.Count))
		}
	}

	if x.asksUsage { // the client gets the stream without the chunk of the usage
		f := newUsageFilter(w)
		defer f.Spill()
		w = f
	}
	// Only a request with something that its client has not asked for can be refused for that.
	edits := x.Edit.Prompt.Edited || o.up.Target(x.Format) != x.Format || o.rewrites || x.asksUsage
	if edits {
		o.refused.Sent(x.Tenant, x.refusal.route.Upstream)
	}
	x.refusal.additions.Off = x.Edit.Without()
	x.refusal.additions.Attach(ctx)
	httpx.ForgetUpstreamStatus(ctx)
	t := newTap(w, x)
	if !edits {
		return x.finish(x.send(t, r))
	}
	err := httpx.Retry(t, r, &resend{x})
	if x.resent {
		x.weigh(t.upstreamStatus(t.Status))
	}
	return x.finish(err)
}

// send forwards the request once, with w for the answer. The client's request is restored afterwards.
func (x *exchange) send(w http.ResponseWriter, r *http.Request) error {
	t := &x.tap
	t.request, t.ours, t.dropped = r, false, false
	t.sent, t.timing = time.Now(), wire.Timing{Queue: x.overhead}
	header, length, coding := r.Header, r.ContentLength, r.TransferEncoding
	defer func() { // for the access log and for error routes
		r.Header, r.ContentLength, r.TransferEncoding = header, length, coding
		x.came.Attach(r)
	}()
	r.Header = httpx.ClonePlain(header) // an answer that can be read; handlers behind may write into the values
	delete(r.Header, headerMode)
	if x.out == nil {
		x.out = &x.sending
	} else { // a transport may still be sending the first
		x.out = new(httpx.Payload)
	}
	switch {
	case x.Edit.Prompt.Edited || x.Partial:
		x.out.Edit(x.Edit.Prompt.Body)
		httpx.SetLength(r, x.Edit.Prompt.Body.Len())
	default:
		x.out.Data = x.came.Data
		if httpx.Coding(header) != "" {
			x.out.Decoded(x.View.Raw, nil)
		}
	}
	x.out.Attach(r)
	if x.Edit.Answerer.Intercepts() { // the model may call our tool, or write one of our stubs
		i := newInterceptWriter(w, t, &x.Edit.Answerer, x.Format, x.site.up.Log)
		x.intercept = i
		return i.Serve(r, x.next)
	}
	return x.pass(w, r, x.next)
}

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
		if f := x.fallback; f != nil && !f.begun && r.Context().Err() == nil { // the fallback serves the request
			t.flushes.Finish() // a late flush would meet the attempt's end
			x.complete(http.ErrAbortHandler)
			return
		}
		x.complete(nil)
		if i, ok := w.(*interceptWriter); ok {
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
	if x.joined || x.settled || x.tap.Status/100 != 2 || x.intercept != nil && !x.intercept.Plain() {
		return
	}
	x.joined = true
	x.site.guard("joining a conversation", func() {
		x.Edit.Join(x.tap.turn())
		x.retainSession()
		x.untold = true
	})
}

// retainSession keeps the session, once, from the first answer on.
func (x *exchange) retainSession() {
	if x.session.Number() == 0 {
		x.site.store.Keep(x.session)
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
	t.flushes.Finish()
	if err == nil && t.dec != nil {
		httpx.Guard(t.exchange.site.up.Log, "decoding the end of an answer", func() {
			t.dec.End()
			t.clock()
		})
	}
	x.complete(err)
	if t.Status == 0 {
		if err != nil {
			x.stamp(t.ResponseWriter.Header())
			return httpx.FailUnreached(t.ResponseWriter, t.request, x.Format, x.site.up.Name(), err)
		}
		return nil
	}
	if e := t.release(); e != nil && err == nil {
		return e
	}
	if x.trailers {
		x.stampTrailer()
	}
	return err
}

// complete ends the exchange, once: at the last event of a stream, or where the handlers behind return or
// panic. The session learns of the answer, and the outcome is told. An answer of which nothing but its
// price was missing has ended.
func (x *exchange) complete(err error) {
	if x.settled {
		return
	}
	o := x.site
	x.settled = true
	x.status = x.tap.Status
	word := outcomeInterrupted
	o.guard("settling an exchange", func() {
		t := x.tap.turn()
		if t == nil && x.status/100 == 2 {
			t = new(wire.Turn) // an answer that cannot be read has a price, too
		}
		x.turn = t
		if x.intercept != nil {
			x.Edit.Answerer.Correct(t, x.intercept.Answers())
		}
		if t != nil {
			t.Service = t.Service.Or(x.service)
		}
		if x.bounded = x.Edit.Bound(t); x.bounded {
			boundedUsages.Inc()
			tellBounded.Do(func() {
				o.up.Log.Warn("upstream reports more tokens than the model's window or the request's max_tokens allow, charging "+
					"no more than these", zap.String("model", x.View.Model))
			})
		}
		// Without reported cache reads, the estimate is the prefix common with the prompt before.
		if t != nil && t.Usage.Reported && t.Usage.Read == 0 && !o.up.Reports() {
			u := &t.Usage
			u.Read = min(int64(x.common*float64(u.Prompt())), u.Uncached)
			u.Uncached -= u.Read
			x.estimated = true
		}

		switch {
		case err == nil && x.status/100 == 2 && t != nil && (t.Done || x.joined) && !t.Failed():
			word = outcomeCompleted
			x.Edit.Commit(t, o.now())
			if x.Edit.Lesson.CutShort && o.up.Local() {
				x.noteCut()
			}
			x.retainSession()
			x.publish()
			if x.Edit.Prompt.Edited {
				x.keepFolded(x.Edit.Answerer.Folded())
			}
			return
		case x.fallback != nil && x.fallbackReason(x.status, err) != "":
			word = outcomeFellBack
		case err != nil || x.status/100 != 2:
			word = outcomeFailed
		}
		x.Edit.Abandon()
	})
	if x.record.Fallback != "" && word == outcomeCompleted {
		fallenOf(x.tap.request).seen(x)
	}
	if x.Purpose == conversing { // side requests may go elsewhere
		o.reach.Note(x.status != 0, err)
	}
	x.report(word)
	x.reserved.Release() // the actual cost is counted, and the client's next request may come at once
}

// noteCut counts a prompt that a local server has cut, and logs it once for each model.
func (x *exchange) noteCut() {
	cutPrompts.Inc()
	model := audit.Bounded(x.site.up.Model(x.View.Model))
	if x.site.cutModels.Meet(model, "") {
		x.site.up.Log.Warn("upstream leaves the oldest messages of prompts out, its context length is too low",
			zap.String("model", model), zap.Int64("counted_tokens", x.turn.Usage.Prompt()),
			zap.Int("estimated_tokens", x.sent()))
	}
}

// keepFolded stores the texts folded in this request, for the case that the client drops them from
// its history.
func (x *exchange) keepFolded(all []pipeline.Block) {
	for _, b := range all {
		x.site.store.Blocks.Put(x.session, x.View.First(), b.Name, b.Text)
	}
}

// release releases the session, and forgets one that was deleted meanwhile.
func (x *exchange) release() {
	s := x.site.store
	s.Release(x.session)
	if !x.session.Gone() {
		return
	}
	// The request may have left something of the session.
	if _, accepted := x.Edit.Committed(); accepted || x.session.Number() > 0 { // else there is nothing
		s.Forget(x.session)
	}
}

// recycle reuses the memory of the bodies after a response without an error: error routes read the request.
func (x *exchange) recycle(r *http.Request, goesOn bool) {
	if x.resent {
		return
	}
	r.Body, r.GetBody = http.NoBody, nil
	sent := x.out.Data
	// A transport that still sends the body reads the client's bytes between the edits.
	if x.out.Recycle() && !x.Partial {
		if !httpx.Same(sent, x.came.Data) {
			reuse.Recycle(x.came.Data)
		}
		if httpx.Coding(r.Header) != "" && !httpx.Same(sent, x.View.Raw) {
			reuse.Recycle(x.View.Raw)
		}
	}
	// A feature that goes on with the prompt keeps it.
	if !goesOn {
		x.Edit.Close()
	}
}

func (o *site) refuse(w http.ResponseWriter, r *http.Request, why bypass) error {
	o.records.count(outcomeUnretained)
	o.guard("putting a refusal on record", func() {
		session := o.store.Acquire(r.Context(), o.sessionKey(r, o.store.Tenants().Of(r), why.view))
		defer o.store.Release(session)
		o.records.refused(r, o.userOf(r), why.view, session.ID())
	})
	if what, ok := errors.AsType[upstream.Unsupported](why.err); ok {
		return what.Refuse(w, why.view.Format)
	}
	return upstream.RefuseUnretained(w)
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
