// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

var translations = metric.CounterVec("translations_total",
	"Requests that went upstream in another form, by the client's format, the upstream's, and how it went.", "from",
	"to", "outcome")

// Announce initializes the counters of this upstream's translations at zero.
func (p *Profile) Announce() {
	for _, from := range wire.Formats() {
		if to := p.Target(from); to != from && p.Understands(from) {
			metric.Known(translations, []string{string(from)}, []string{string(to)},
				[]string{translationDone, translationRefused, translationFailed, translationBroken, translationUnknown})
		}
	}
}

// translation adapts formats, model names and tool calls. Resends and continuations also pass through it.
type translation struct {
	p        *Profile
	next     caddyhttp.Handler
	from, to wire.Format // the client's format and the upstream's
	tenant   sessioncache.Tenant
	session  string     // names the conversation to the upstream, empty if the request was not parsed
	view     *wire.View // of the client's request, nil if unparsed
	renamed  *wire.View // of the request with the upstream's model, nil if unknown
}

// Translate returns next behind a translation, or next itself if there is nothing to translate.
// session names the conversation to the upstream. view is the parsed client's request, which may have been
// edited since; nil if it was not parsed.
func (p *Profile) Translate(
	next caddyhttp.Handler, client wire.Format, tenant sessioncache.Tenant, session string, view *wire.View,
) caddyhttp.Handler {
	to := p.Target(client)
	if to == client && !p.Renames() && !p.buffers() {
		return next
	}
	if to == client && p.buffers() {
		next = wholeCalls(next, client)
	}
	return &translation{p: p, next: next, from: client, to: to, tenant: tenant, session: session, view: view}
}

// wholeCalls returns next behind a layer that gives the calls of an answer in one piece ids and arguments as those of
// a stream get.
func wholeCalls(next caddyhttp.Handler, f wire.Format) caddyhttp.Handler {
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return httpx.NewEditor(w, nil, func(body []byte) []byte { return translate.WholeCalls(f, body) }).Serve(next, r)
	})
}

// ServeHTTP implements caddyhttp.Handler. A request that cannot be translated gets an error
// response in the client's format.
func (t *translation) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	body, err := httpx.OutgoingEdits(r, t.p.MaxBody)
	if err != nil && t.from == t.to {
		return t.next.ServeHTTP(w, r) // the upstream speaks the client's format
	}
	var out *translate.Outgoing
	if err == nil {
		out, err = t.convert(r, body)
	}
	if err != nil {
		t.count(translationRefused)
		return httpx.Fail(w, t.from, translate.Refusal(err))
	}
	a := newTranslatedAnswer(w, t, out, t.asked(out, r.URL.RawQuery))
	defer t.substitute(r, body.Raw, out)()
	if err := a.serve(t.next, r); err != nil {
		t.count(translationFailed)
		return a.fault(err)
	}
	return a.finish()
}

// convert puts the request into the upstream's format. body is that of the request, with its edits apart.
func (t *translation) convert(r *http.Request, body *wire.Body) (out *translate.Outgoing, err error) {
	defer func() {
		// The request cannot be forwarded untranslated.
		if p := recover(); p != nil {
			httpx.Recovered(t.p.Log, "translating a request", p)
			err = errors.New("the request could not be translated")
		}
	}()
	if t.from == t.to {
		return t.rename(r, body)
	}
	in := translate.Incoming{Path: r.URL.Path, Query: r.URL.RawQuery}
	if in.Body, err = httpx.Outgoing(r, t.p.MaxBody); err != nil {
		return nil, err
	}
	u := t.p.Upstream
	o := translate.Options{Model: u.Model, Official: u.Official(), SystemMessages: u.SystemMessages}
	if u.MaxTokensDefault != nil {
		o.MaxTokens = *u.MaxTokensDefault
	}
	if u.MaxToolName != nil {
		o.NameLimit = *u.MaxToolName
	}
	o.CacheControl, o.Marks = u.CacheControl != nil && *u.CacheControl || u.CacheControl == nil && u.marked(), u.marked()
	o.Breakpoints = u.Breakpoints != nil && *u.Breakpoints
	o.CacheKey = t.session
	o.NoEffort = u.Local() || u.preset().off != nil
	o.Progress = t.from.Traits().UsageFirst && u.preset().progress
	additions := httpx.AdditionsOf(r.Context())
	o.Plain = additions.Off.Has(wire.EditMarkers)
	memory := t.p.Translations
	if in.Remember = memory != nil && t.view != nil && t.session != ""; in.Remember {
		in.Turns = memory.get(t.session, t.view.First(), t.to)
	}
	if out, err = translate.Convert(t.from, t.to, in, o); err != nil {
		return nil, err
	}
	if out.Added {
		additions.Make(wire.EditMarkers, nil)
	}
	if in.Remember && out.Turns != in.Turns {
		memory.put(t.tenant, t.session, translated{t.view.First(), t.to, out.Turns})
	}
	return out, nil
}

// rename sets the upstream's model.
func (t *translation) rename(r *http.Request, body *wire.Body) (*translate.Outgoing, error) {
	t.renamed = nil
	out := &translate.Outgoing{Body: body, Path: r.URL.Path, Query: r.URL.RawQuery, IncludeUsage: true}
	// Some formats have the model in the path.
	if a, ok := t.from.Codec().(wire.Addresser); ok {
		base, model, stream, ok := a.Address(out.Path)
		out.Stream = stream
		if name := t.p.Upstream.Model(model); ok && name != model {
			out.Model = model
			out.Path = base + name + out.Path[len(base)+len(model):]
		}
		return out, nil
	}
	// A view of these bytes spares a search in the messages, here and in the layers behind.
	view := httpx.View(r, t.from)
	if view == nil || !httpx.Same(body.Raw, view.Raw) {
		view = t.view
	}
	if view == nil {
		var err error
		if view, err = wire.Parse(t.from, body.Bytes(), nil); err != nil {
			return out, nil //nolint:nilerr // what is not understood passes untouched
		}
	}
	out.Stream = view.Reply.Stream
	name := t.p.Upstream.Model(view.Model)
	if name == view.Model {
		return out, nil
	}
	out.Model = view.Model
	var err error
	switch exact := httpx.Same(body.Raw, view.Raw); {
	case exact && body.Parts() == 1:
		if t.renamed, err = view.Renamed(name); err == nil {
			out.Body = &wire.Body{Raw: t.renamed.Raw}
		}
	case exact:
		out.Body, err = view.Rename(body, name)
	default:
		out.Body = new(wire.Body)
		out.Body.Raw, err = wire.Patch(body.Bytes(), wire.Member{Name: "model", Value: rawjson.Quote(name)})
	}
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return out, nil
}

// substitute replaces the request's URL, headers and body by the upstream's.
func (t *translation) substitute(r *http.Request, body []byte, out *translate.Outgoing) (restore func()) {
	address, uri := r.URL, r.RequestURI
	unswap := httpx.SwapEdited(r, body, out.Body)
	if t.renamed != nil {
		httpx.SetView(r, t.renamed)
	}
	translate.Headers(t.from, t.to, r.Header, address.RawQuery)
	httpx.AskPlain(r.Header)
	if out.Path != address.Path || out.Query != address.RawQuery {
		u := *address
		u.Path, u.RawPath, u.RawQuery = out.Path, "", out.Query
		r.URL, r.RequestURI = &u, u.RequestURI()
	}
	// The access log, error routes and a second pass see the client's request.
	return func() {
		r.URL, r.RequestURI = address, uri
		unswap()
	}
}

func (t *translation) count(outcome string) {
	translations.WithLabelValues(string(t.from), string(t.to), outcome).Inc()
}

func (t *translation) asked(out *translate.Outgoing, query string) *translate.Answering {
	a := &translate.Answering{
		Stream: out.Stream, Usage: out.IncludeUsage, Names: out.Names, Stop: out.Stop, Empty: out.Empty,
		BufferCalls: t.p.buffers(), JoinCalls: t.p.JoinCalls, Created: time.Now().Unix(),
		Seed:  sync.OnceValue(func() string { return strconv.FormatUint(sumOf(out.Body), 36) }),
		Array: t.from.Array(out.Stream, query),
	}
	a.InlineThinking = !t.p.Official()
	if t.p.Local() && !t.p.Stateful() { // conversations are found again by the ids of their responses
		a.UniqueID = rand.Text()
	}
	if t.p.Upstream.Model(out.Model) != out.Model {
		a.Model = out.Model // clients look up a model's properties by the name they know
	}
	return a
}

// sumOf returns a hash of a body's bytes.
func sumOf(b *wire.Body) uint64 {
	h := xxhash.New()
	for i := range b.Parts() {
		_, _ = h.Write(b.Part(i))
	}
	return h.Sum64()
}

const headerDropped = "X-Llm-Cache-Dropped"

// Outcomes of a translated turn.
const (
	translationDone    = "translated"
	translationRefused = "refused"        // the request cannot be translated: 400
	translationFailed  = "failed"         // the upstream answered with an error, or not at all
	translationBroken  = "broken"         // the response could not be read
	translationUnknown = "unknown_reason" // the response's stop reason has no translation
)

// translatedAnswer is a response writer that translates the upstream's response to the client's
// format. It forwards a stream event by event and buffers an error or a response in one piece until
// it is complete.
type translatedAnswer struct {
	httpx.Answer
	t        *translation
	out      *translate.Outgoing
	asked    *translate.Answering
	stream   answerStream // of a successful response
	coding   string
	buffered []byte // a buffered error, or an encoded response
	mode     answerMode
}

// answerStream processes a model's response: a translation or, in the client's own format, the
// buffering of tool calls.
type answerStream interface {
	Feed(p []byte) []byte
	Close(cut bool) []byte
	Ended() bool
	Failure() *translate.Failure
}

type answerMode uint8

const (
	answerPasses  answerMode = iota // unmodified
	answerStreams                   // event by event
	answerWaits                     // the first byte will tell whether the response is a stream
	answerGathers                   // one response in one piece
	answerFails                     // an error
	answerTold                      // the client got an error instead
)

func newTranslatedAnswer(
	w http.ResponseWriter, t *translation, out *translate.Outgoing, asked *translate.Answering,
) *translatedAnswer {
	a := &translatedAnswer{t: t, out: out, asked: asked}
	a.Answer = httpx.NewAnswer(w, a)
	return a
}

// Begin implements [httpx.Receiver].
func (a *translatedAnswer) Begin(status int) {
	h := a.Header()
	if len(a.out.Dropped) > 0 && a.t.p.Headers {
		h[headerDropped] = []string{strings.Join(a.out.Dropped, ", ")}
	}
	// Only the model's name was changed, so the response is the client's already.
	if a.t.from == a.t.to && !a.t.p.buffers() {
		a.pass()
		return
	}
	a.coding = httpx.Coding(h)
	switch {
	case a.t.from == a.t.to && nothingFollows(status):
		a.pass()
	case status/100 == 2:
		a.begin(h)
	case status >= 400 && a.t.from != a.t.to:
		a.mode = answerFails
	default:
		a.pass()
	}
}

func nothingFollows(status int) bool {
	// RFC 9110, 15.3.5 and 15.3.6.
	return status == http.StatusNoContent || status == http.StatusResetContent
}

func (a *translatedAnswer) pass() {
	a.mode = answerPasses
	a.Send()
}

func (a *translatedAnswer) begin(h http.Header) {
	if a.t.from == a.t.to && (a.coding != "" || httpx.MediaType(h.Get("Content-Type")) != "text/event-stream") {
		a.pass() // a response in one piece has its calls whole
		return
	}
	if a.t.from == a.t.to {
		a.stream, a.mode = translate.NewBufferer(a.t.from, a.t.p.JoinCalls), answerStreams
		// Buffering calls changes the length.
		delete(h, "Content-Length")
		a.Send()
		return
	}
	a.stream, a.mode = translate.NewStream(a.t.to, a.t.from, a.asked), answerGathers
	switch {
	case !a.asked.Stream || a.coding != "" || nothingFollows(a.Status):
	case httpx.MediaType(h.Get("Content-Type")) == "text/event-stream":
		a.open()
	default:
		a.mode = answerWaits
	}
}

func (a *translatedAnswer) open() {
	h := a.Header()
	a.mode = answerStreams
	a.clean(h)
	h["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
	if a.asked.Array {
		h["Content-Type"] = []string{"application/json; charset=utf-8"}
	}
	h["Cache-Control"] = []string{"no-cache"}
	a.Send()
}

// recognise decides whether a response without a stream's type is one.
func (a *translatedAnswer) recognise(p []byte) {
	p = bytes.TrimLeft(p, "\xEF\xBB\xBF \t\r\n")
	switch {
	case len(p) == 0:
	case strings.IndexByte("deir:", p[0]) >= 0: // data, event, id, retry, or a comment
		a.open()
	// A gateway's HTML page, or JSON, must be complete before the client gets a status.
	default:
		a.mode = answerGathers
	}
}

func (a *translatedAnswer) serve(next caddyhttp.Handler, r *http.Request) (err error) {
	cut := true
	defer func() {
		// A client that has a part of the response must see the cut.
		if !cut || !a.Buffering() {
			return
		}
		if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint,err113 // the very value
			panic(p)
		}
		a.t.p.Log.Error("the upstream's answer was cut", zap.Int("status", a.Status))
		a.t.count(translationBroken)
		if a.mode == answerFails {
			err = a.fail()
		} else {
			a.clean(a.Header())
			err = httpx.Fail(a.ResponseWriter, a.t.from, &translate.Failure{
				Status:  http.StatusBadGateway,
				Message: httpx.Unreached[http.StatusBadGateway],
			})
		}
		a.mode = answerTold
	}()
	err = next.ServeHTTP(a, r)
	cut = false
	return err
}

// Buffering implements [httpx.Receiver]: the upstream has answered, and the client has nothing of
// the response.
func (a *translatedAnswer) Buffering() bool {
	return a.mode == answerWaits || a.mode == answerGathers || a.mode == answerFails
}

func (a *translatedAnswer) fault(err error) error {
	switch {
	case a.mode == answerStreams && !a.stream.Ended():
		// The client gets the translated events so far, and then the cut.
		_ = a.FlushError()
		httpx.LogCut(a.t.p.Log, err)
		panic(http.ErrAbortHandler)
	case a.Buffering():
		if _, ok := errors.AsType[caddyhttp.HandlerError](err); !ok {
			return caddyhttp.Error(http.StatusBadGateway, err)
		}
	}
	return err
}

func (a *translatedAnswer) clean(h http.Header) {
	// Length and coding describe the upstream's bytes.
	httpx.DropCoded(h)
	// Both families of APIs identify a request for support, under different names.
	from, to := "X-Request-Id", "Request-Id"
	if a.t.from.Traits().RequestID == "" {
		from, to = to, from
	}
	if v := h[from]; len(v) > 0 && len(h[to]) == 0 {
		h[to] = v
	}
}

// Take implements [httpx.Receiver].
func (a *translatedAnswer) Take(p []byte) (int, error) {
	if a.mode == answerWaits { // only white space is buffered so far
		a.recognise(p)
	}
	switch a.mode {
	case answerStreams:
		return len(p), a.send(a.feed(p))
	case answerWaits, answerGathers, answerFails:
		a.buffered = httpx.Keep(a.buffered, p, a.limit())
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

func (a *translatedAnswer) limit() int {
	if a.mode == answerFails {
		// The beginning of an error is enough.
		return httpx.MaxError
	}
	// One byte more tells an oversized response from one that just fits.
	return maxAnswer + 1
}

// maxAnswer bounds a response that is buffered for translation, in bytes.
const maxAnswer = 32 << 20

func (a *translatedAnswer) feed(p []byte) (out []byte) {
	defer func() {
		if e := recover(); e != nil {
			// The stream's state is unknown, so the response ends here.
			a.broke(e)
			out = nil
		}
	}()
	return a.stream.Feed(p)
}

func (a *translatedAnswer) end() (out []byte) {
	defer func() {
		if e := recover(); e != nil {
			a.broke(e)
			out = nil
		}
	}()
	return a.stream.Close(false)
}

func (a *translatedAnswer) broke(e any) {
	httpx.Recovered(a.t.p.Log, "translating an answer", e)
	a.t.count(translationBroken)
	panic(http.ErrAbortHandler) // neither the upstream's bytes nor half a response may pass for a whole one
}

func (a *translatedAnswer) serves() {
	if s, ok := a.stream.(*translate.Stream); ok && s.Service() != 0 {
		// The client's format may lack the service tier, and the response is charged at its end.
		httpx.Served(a.ResponseWriter, s.Service())
	}
}

func (a *translatedAnswer) send(out []byte) error {
	a.serves()
	if len(out) == 0 {
		return nil
	}
	_, err := a.ResponseWriter.Write(out)
	return err
}

func (a *translatedAnswer) finish() error {
	switch a.mode {
	case answerStreams:
		err := a.send(a.end())
		whole := a.stream.Ended()
		if s, ok := a.stream.(*translate.Stream); ok && err == nil {
			err = a.send(s.CloseEmpty())
		}
		a.judge(whole)
		return err
	case answerFails:
		a.t.count(translationFailed)
		return a.fail()
	case answerWaits, answerGathers:
		return a.gathered()
	case answerTold:
		return nil
	}
	if a.Status != 0 {
		a.t.count(translationDone)
	}
	return nil
}

func (a *translatedAnswer) judge(whole bool) {
	s, _ := a.stream.(*translate.Stream)
	switch {
	case !whole:
		a.t.count(translationBroken)
	case s != nil && s.UnknownReason() != "":
		a.t.p.Log.Info("the answer ended for a reason that has no translation", zap.String("reason", s.UnknownReason()),
			zap.String("format", string(a.t.to)))
		a.t.count(translationUnknown)
	default:
		a.t.count(translationDone)
	}
}

func (a *translatedAnswer) fail() error {
	f := httpx.ReadFailure(a.t.to, a.Status, a.Header(), a.buffered)
	a.clean(a.Header())
	return httpx.Relay(a.ResponseWriter, a.t.from, f)
}

func (a *translatedAnswer) gathered() error {
	body, err := httpx.Decode(a.coding, a.buffered, maxAnswer, nil)
	var out []byte
	if err == nil && len(body) <= maxAnswer {
		out = append(out, a.feed(body)...)
		out = append(out, a.end()...)
	}
	a.clean(a.Header())
	// Some servers report a failure with a status of 200.
	if f := a.stream.Failure(); f != nil {
		a.t.count(translationFailed)
		return httpx.Relay(a.ResponseWriter, a.t.from, f)
	}
	a.judge(a.stream.Ended())
	if !a.stream.Ended() {
		return httpx.Fail(a.ResponseWriter, a.t.from, &translate.Failure{
			Status:  http.StatusBadGateway,
			Message: "the upstream's answer is not one that can be read",
		})
	}
	kind := "application/json"
	if a.asked.Stream && !a.asked.Array {
		kind = "text/event-stream; charset=utf-8"
	}
	a.serves()
	return httpx.Respond(a.ResponseWriter, a.Status, kind, out)
}
