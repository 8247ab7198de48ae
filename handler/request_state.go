// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/local"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/warm"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// requestState is one request that is being processed, from its edits to the end of
// its answer.
type requestState struct {
	site     *site
	view     *wire.View
	session  *sessioncache.Session
	ex       *pipeline.Exchange
	overhead time.Duration
	plain    func() bool               // nil where nothing is hidden from the client
	answers  func() []hidden.Iteration // that its message is made of, nil likewise
	asker    asker
	body     bodies
	telling  telling
	books    books
	ending   ending
	refusal  refusal
	boxed    boxed

	// Most requests need one of each: they share the allocation.

	passage passage
	first   tap
}

// asker is the caller.
type asker struct {
	tenant sessioncache.Tenant
	person tenant.Person
	client string // the program
	host   string // to which the request was addressed
}

// bodies are the forms of a request's body.
type bodies struct {
	raw      []byte         // as the client sent it
	rethread func()         // restores the client's request for a thread, nil without one
	own      *retain.Own    // as the client sent it, if that goes on from an answer and the view is of the whole
	out      *httpx.Payload // goes upstream
	sending  httpx.Payload  // is out, the first time
	original httpx.Payload  // is raw, for error routes and the access log
}

// telling is the choice of headers and trailers of the answer.
type telling struct {
	trailers bool      // the client takes trailers
	all      bool      // the headers tell all values
	told     [1]string // the one header otherwise
}

// books are the records of a request: audit, access log, trace.
type books struct {
	began     time.Time // by the clock of the records
	account   *account
	continued []continuation
	logged    logged
	span      *Span // nil where nothing is traced
}

// arrived is the description of the body with which a request came.
type arrived struct {
	header http.Header
	length int64
	coding []string
}

// ending is the outcome of a request.
type ending struct {
	turn      *wire.Turn // set by settle
	settled   bool
	status    int  // of the answer, 0 where none came
	denied    bool // the credential was refused
	joined    bool // the request is part of its conversation
	untold    bool // other processes do not know of it yet
	resent    bool
	bounded   bool         // the usage was more than there can be
	estimated bool         // the usage's cached tokens are our estimate
	service   wire.Service // as the upstream has said, where its answer was translated
}

// boxed is the state of a request to a local server.
type boxed struct {
	place  atomic.Pointer[local.Place] // in the queue
	prompt *warm.Prompt                // nil where no bases are kept warm
	common float64                     // share of the prompt that the upstream has seen before
}

// serve hands the request on and sees its answer to the client.
func (c *requestState) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, started time.Time) error {
	edits := c.edits()
	c.telling.trailers = httpguts.HeaderValuesContainsToken(r.Header["Te"], "trailers")
	c.announce(r)
	c.overhead = time.Since(started)
	countRequest(c.ex, c.overhead)
	c.asker.client = audit.ClientName(first(r.Header, "User-Agent"))
	c.site.guard("opening a record", func() { c.open(r) })
	w, end := c.withoutUsageChunk(w)
	defer end()
	if edits {
		c.site.refused.Sent(c.asker.tenant, c.refusal.route.Upstream)
	}
	c.refusal.additions.Off = c.ex.Without()
	c.refusal.additions.Attach(r.Context())
	httpx.ForgetUpstreamStatus(r.Context())
	t := newTap(w, c)
	if !edits {
		return c.finish(t, c.send(t, t, r, next))
	}
	err := httpx.Retry(t, r, &resend{c, next})
	if c.ending.resent {
		c.weigh(t.told(t.Status))
	}
	return c.finish(t, err)
}

// send forwards an attempt. The client's request is restored afterwards.
func (c *requestState) send(t *tap, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	t.begin(r)
	defer c.restore(r, c.substitute(r))
	if c.ex.Interceptor.Intercepts() {
		return c.passHiding(t, w, r, next)
	}
	return c.pass(t, w, r, next)
}

// recycle gives back the memory of the bodies and of their parsed forms once nothing can read them:
// after an answer without an error, for error routes read the request.
func (c *requestState) recycle(r *http.Request) {
	if c.ending.resent {
		return
	}
	r.Body, r.GetBody = http.NoBody, nil
	c.body.out.Recycle()
	if c.ex.Prompt.Edited && c.body.own == nil {
		reuse.Recycle(c.body.raw)
	}
	if c.coded(r) && c.body.own == nil {
		reuse.Recycle(c.view.Raw)
	}
	if c.site.sharing.fold == nil { // which goes on with them
		c.ex.Close()
	}
}

// coded reports whether the client sent the body in a content coding.
func (c *requestState) coded(r *http.Request) bool { return httpx.Coding(r.Header) != "" }

// substitute puts the body to send into the request and asks for an answer
// that can be read.
func (c *requestState) substitute(r *http.Request) arrived {
	came := arrived{r.Header, r.ContentLength, r.TransferEncoding}
	r.Header = httpx.ClonePlain(came.header) // handlers behind may write into the values
	delete(r.Header, headerMode)
	if c.body.out == nil {
		c.body.out = &c.body.sending
	} else { // a transport may still be sending the first
		c.body.out = new(httpx.Payload)
	}
	if !c.ex.Prompt.Edited && c.body.own == nil {
		c.body.out.Data = c.body.raw
		if c.coded(r) {
			c.body.out.Decoded(c.view.Raw, nil)
		}
	} else {
		c.body.out.Data = c.ex.Prompt.Body
		httpx.SetLength(r, len(c.ex.Prompt.Body))
	}
	c.body.out.Attach(r)
	return came
}

// restore puts the client's request back, for the access log and for error routes.
func (c *requestState) restore(r *http.Request, came arrived) {
	r.Header, r.ContentLength, r.TransferEncoding = came.header, came.length, came.coding
	c.body.original.Data = c.body.raw
	c.body.original.Attach(r)
}

// pass runs the handlers behind this one. If they panic, as reverse_proxy does for an answer that is
// cut, the client gets the bytes so far and the panic goes on. Without any, as when Caddy's abort closes
// the connection, the client gets nothing.
func (c *requestState) pass(t *tap, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	returned := false
	defer func() {
		if returned || t.dropped && r.Context().Err() == nil { // a refusal that is cut is one all the same
			return
		}
		c.settle(t, nil)
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

// finish ends a pass that was not cut. The session learns of the answer before
// the client has the last of it, so that the next request finds it known.
func (c *requestState) finish(t *tap, err error) error {
	t.flushes.Settle()
	if err == nil {
		t.end()
	}
	c.settle(t, err)
	if t.Status == 0 {
		if err != nil {
			c.stamp(t.ResponseWriter.Header(), t)
			return httpx.FailUnreached(t.ResponseWriter, t.request, c.view.Format, err)
		}
		return nil
	}
	if e := t.release(); e != nil && err == nil {
		return e
	}
	c.stampTrailer(t)
	return err
}

// join makes the request part of its conversation as soon as the stop reason is there. In chat
// completions and Gemini the usage, or the end of the stream, comes later, and some clients send the
// next request before it.
func (c *requestState) join(t *tap) {
	if c.ending.joined || c.ending.settled || t.Status/100 != 2 || c.plain != nil && !c.plain() {
		return
	}
	c.ending.joined = true
	c.site.guard("joining a conversation", func() {
		c.ex.Join(t.turn())
		c.hold()
		c.ending.untold = true
	})
}

// tell publishes a conversation that was joined, unless it was settled by the same piece
// of the answer: most answers end in one, and others need to see it once.
func (c *requestState) tell() {
	if c.ending.untold {
		c.site.guard("joining a conversation", c.publish)
	}
}

// hold keeps the session, once, from the first answer on.
func (c *requestState) hold() {
	if c.session.Number() == 0 {
		c.site.store.Hold(c.session)
	}
}

// publish shows the conversation to other processes, where they share the store.
func (c *requestState) publish() {
	c.ending.untold = false
	c.site.store.Publish(c.session)
}

// settle tells the session how the exchange ended, once. An answer of which nothing but
// its price was missing has ended.
func (c *requestState) settle(t *tap, err error) {
	if c.ending.settled {
		return
	}
	c.ending.settled = true
	c.ending.status = t.Status
	c.ending.denied = t.Status == http.StatusUnauthorized || t.Status == http.StatusForbidden
	outcome := outcomeInterrupted
	c.site.guard("settling an exchange", func() {
		c.ending.turn = t.turn()
		if c.ending.turn == nil && t.Status/100 == 2 {
			c.ending.turn = new(wire.Turn) // an answer that cannot be read has a price, too
		}
		if c.answers != nil {
			c.ex.Interceptor.Correct(c.ending.turn, c.answers())
		}
		if t := c.ending.turn; t != nil {
			t.Service = t.Service.Or(c.ending.service)
		}
		if c.ending.bounded = c.ex.Bound(c.ending.turn); c.ending.bounded {
			boundedUsages.Inc()
			tellBounded.Do(func() {
				c.site.up.Log.Warn("upstream reports more tokens than the model's window or the request's max_tokens allow, charging no more than these", zap.String("model", c.view.Model))
			})
		}
		if !c.site.up.Reports() {
			c.ending.estimate(c.boxed.common)
		}
		if err == nil && t.Status/100 == 2 && c.ending.turn != nil && (c.ending.turn.Done || c.ending.joined) && !c.ending.turn.Failed() {
			outcome = outcomeCompleted
			c.ex.Commit(c.ending.turn, c.site.now())
			c.noteCut()
			c.hold()
			c.publish()
			c.keepFolded(c.ex.Interceptor.Folded())
			return
		}
		if err != nil || t.Status/100 != 2 {
			outcome = outcomeFailed
		}
		c.ex.Abandon()
	})
	c.site.records.count(outcome)
	if c.passage.purpose == conversing { // side requests may go elsewhere
		c.site.reach.Note(t.Status != 0, err)
	}
	countLesson(c.ex, c.saved())
	countAnswer(c.ending.turn)
	c.site.guard("closing a record", func() {
		c.count(outcome)
		c.books.account.close(c, outcome, t.Status)
	})
}

// noteCut counts a prompt of which a local server has left a part out, and has the log say so
// once for each model.
func (c *requestState) noteCut() {
	if !c.ex.Lesson.CutShort || !c.site.up.Local() {
		return
	}
	cutPrompts.Inc()
	model := audit.Bounded(c.site.up.Model(c.view.Model))
	if c.site.cutModels.Meet(model, "") {
		c.site.up.Log.Warn("upstream leaves the oldest messages of prompts out, its context length is too low",
			zap.String("model", model), zap.Int64("counted_tokens", c.ending.turn.Usage.Prompt()), zap.Int("estimated_tokens", c.sent()))
	}
}

// estimate fills in the cached tokens of a usage without any: the share of the prompt that the upstream
// had been sent before.
func (e *ending) estimate(common float64) {
	if e.turn == nil || !e.turn.Usage.Reported || e.turn.Usage.Read > 0 {
		return
	}
	u := &e.turn.Usage
	read := min(int64(common*float64(u.Prompt())), u.Uncached)
	u.Read, u.Uncached = read, u.Uncached-read
	e.estimated = true
}

// heartbeat returns the writer for a stream, nil if the client gets no signs of life.
func (c *requestState) heartbeat(w http.ResponseWriter, r *http.Request) *local.Alive {
	every, open := c.site.sharing.heartbeat.Intervals(c.site.up.Upstream)
	if every == 0 {
		return nil
	}
	return local.Stream{Every: every, Open: open, Events: c.view.Reply.Stream, Format: c.view.Format, Agent: r.UserAgent(), Stamp: func(to http.Header) {
		switch {
		case !c.site.up.Headers:
		case c.telling.all:
			to[headerSession], to[headerPolicy] = []string{c.session.ID()}, []string{string(c.ex.Policy)}
		default:
			to[headerBrief] = []string{c.brief()}
		}
		if p := c.boxed.place.Load(); p != nil {
			p.Stamp(to)
		}
	}}.Begin(w)
}
