// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

var translations = metric.CounterVec("translations_total", "Requests that went upstream in another form, by the client's format, the upstream's, and how it went.", "from", "to", "outcome")

// Announce has the counters of what is translated for this upstream there, at zero.
func (p *Profile) Announce() {
	for _, from := range wire.Formats() {
		if to := p.Target(from); to != from && p.Understands(from) {
			metric.Known(translations, []string{string(from)}, []string{string(to)}, []string{translationDone, translationRefused, translationFailed, translationBroken, translationUnknown})
		}
	}
}

// translation is the layer between the handler, which works in the client's
// format, and an upstream that speaks another one, goes by another name of the
// model, or whose tool calls are to be sent whole. It stands in the place of
// next, so that whatever is sent through it is translated: a resend and a
// continuation, too.
type translation struct {
	p        *Profile
	next     caddyhttp.Handler
	from, to wire.Format // the client's format and the upstream's
	key      string      // names the conversation to the upstream
	view     *wire.View  // of the client's request, nil for what nobody has read
}

// Translate returns next with a translation before it, or next itself where there is
// nothing to translate. key names the conversation to the upstream. View is that of the
// client's request, which may have been edited since; nil for what nobody has read.
func (p *Profile) Translate(next caddyhttp.Handler, client wire.Format, key string, view *wire.View) caddyhttp.Handler {
	to := p.Target(client)
	if to == client && !p.Renames() && !p.buffers() {
		return next
	}
	return &translation{p: p, next: next, from: client, to: to, key: key, view: view}
}

// ServeHTTP implements caddyhttp.Handler. What the client is told of a request
// that cannot be translated is an answer, not an error: nothing can be forwarded.
func (t *translation) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	body, err := httpx.Outgoing(r, t.p.MaxBody)
	if err != nil && t.from == t.to {
		return t.next.ServeHTTP(w, r) // whatever it is, the upstream speaks the same
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
	defer t.substitute(r, body, out)()
	if err := a.serve(t.next, r); err != nil {
		t.count(translationFailed)
		return a.fault(err)
	}
	return a.finish()
}

// convert puts the request into the upstream's format. A panic in there is an
// error: the request cannot go out as it is.
func (t *translation) convert(r *http.Request, body []byte) (out *translate.Outgoing, err error) {
	defer func() {
		if p := recover(); p != nil {
			httpx.Recovered(t.p.Log, "translating a request", p)
			err = errors.New("the request could not be translated")
		}
	}()
	in := translate.Incoming{Body: body, Path: r.URL.Path, Query: r.URL.RawQuery}
	if t.from == t.to {
		return t.rename(in)
	}
	u := t.p.Upstream
	o := translate.Options{Model: u.Model, Official: u.Official(), SystemMessages: u.SystemMessages}
	if u.MaxTokensDefault != nil {
		o.MaxTokens = *u.MaxTokensDefault
	}
	if u.NameLimit != nil {
		o.NameLimit = *u.NameLimit
	}
	o.CacheControl = u.CacheControl != nil && *u.CacheControl
	o.Breakpoints = u.Breakpoints != nil && *u.Breakpoints
	o.CacheKey = t.key
	o.NoEffort = u.Local()
	o.Progress = t.from.Traits().UsageFirst && u.preset().progress
	additions := httpx.AdditionsOf(r.Context())
	o.Plain = additions.Off.Has(wire.EditMarkers)
	if out, err = translate.Convert(t.from, t.to, in, o); err == nil && out.Added {
		additions.Make(wire.EditMarkers, nil)
	}
	return out, err
}

// rename puts the upstream's name of the model in the place of the client's.
func (t *translation) rename(in translate.Incoming) (*translate.Outgoing, error) {
	out := &translate.Outgoing{Body: in.Body, Path: in.Path, Query: in.Query, IncludeUsage: true}
	if a, ok := t.from.Codec().(wire.Addresser); ok {
		base, model, stream, ok := a.Address(in.Path)
		out.Stream = stream
		if name := t.p.Upstream.Model(model); ok && name != model {
			out.Model = model
			out.Path = base + name + in.Path[len(base)+len(model):]
		}
		return out, nil
	}
	view, err := t.view, error(nil)
	if view == nil {
		view, err = wire.Parse(t.from, in.Body, nil)
	}
	if err != nil {
		return out, nil //nolint:nilerr // what is not understood passes untouched
	}
	out.Stream = view.Reply.Stream
	if name := t.p.Upstream.Model(view.Model); name != view.Model {
		value, err := json.Marshal(name)
		if err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
		object, err := wire.ReadObject(in.Body, view)
		if err == nil {
			out.Body, err = object.Patch(wire.Member{Name: "model", Value: value})
		}
		if err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
		out.Model = view.Model
	}
	return out, nil
}

// substitute makes the request, whose body was another, the upstream's. The returned function
// puts back what was there before, for the access log, error routes and a second pass.
func (t *translation) substitute(r *http.Request, body []byte, out *translate.Outgoing) (restore func()) {
	address, uri := r.URL, r.RequestURI
	unswap := httpx.SwapBody(r, body, out.Body)
	translate.Headers(t.from, t.to, r.Header, address.RawQuery)
	httpx.AskPlain(r.Header)
	if out.Path != address.Path || out.Query != address.RawQuery {
		u := *address
		u.Path, u.RawPath, u.RawQuery = out.Path, "", out.Query
		r.URL, r.RequestURI = &u, u.RequestURI()
	}
	return func() {
		r.URL, r.RequestURI = address, uri
		unswap()
	}
}

func (t *translation) count(outcome string) {
	translations.WithLabelValues(string(t.from), string(t.to), outcome).Inc()
}

// asked is what the answer has to know of the request.
func (t *translation) asked(out *translate.Outgoing, query string) *translate.Answering {
	a := &translate.Answering{
		Stream: out.Stream, Usage: out.IncludeUsage, Names: out.Names, Stop: out.Stop, Empty: out.Empty,
		BufferCalls: t.p.buffers(), JoinCalls: t.p.JoinCalls, Created: time.Now().Unix(), Seed: strconv.FormatUint(xxhash.Sum64(out.Body), 36),
		Array: t.from.Array(out.Stream, query),
	}
	a.InlineThinking = !t.p.Official()
	if t.p.Local() && !t.p.Stateful() { // by whose ids a conversation is found again
		a.OwnID = rand.Text()
	}
	if t.p.Upstream.Model(out.Model) != out.Model {
		a.Model = out.Model // clients look up what a model can do by the name that they know
	}
	return a
}
