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

// Announce initializes the counters of this upstream's translations at zero.
func (p *Profile) Announce() {
	for _, from := range wire.Formats() {
		if to := p.Target(from); to != from && p.Understands(from) {
			metric.Known(translations, []string{string(from)}, []string{string(to)}, []string{translationDone, translationRefused, translationFailed, translationBroken, translationUnknown})
		}
	}
}

// translation is the layer between the handler, which works in the client's format, and an upstream
// that speaks another format, has other model names, or must send tool calls whole. Resends and
// continuations also pass through it.
type translation struct {
	p        *Profile
	next     caddyhttp.Handler
	from, to wire.Format // the client's format and the upstream's
	key      string      // names the conversation to the upstream
	view     *wire.View  // of the client's request, nil if unparsed
}

// Translate returns next behind a translation, or next itself if there is nothing to translate. key
// names the conversation to the upstream. view is the parsed client's request, which may have been
// edited since; nil if it was not parsed.
func (p *Profile) Translate(next caddyhttp.Handler, client wire.Format, key string, view *wire.View) caddyhttp.Handler {
	to := p.Target(client)
	if to == client && !p.Renames() && !p.buffers() {
		return next
	}
	return &translation{p: p, next: next, from: client, to: to, key: key, view: view}
}

// ServeHTTP implements caddyhttp.Handler. A request that cannot be translated gets an error
// response in the client's format.
func (t *translation) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	body, err := httpx.Outgoing(r, t.p.MaxBody)
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
	defer t.substitute(r, body, out)()
	if err := a.serve(t.next, r); err != nil {
		t.count(translationFailed)
		return a.fault(err)
	}
	return a.finish()
}

// convert puts the request into the upstream's format. A panic becomes an error: the request cannot
// be forwarded untranslated.
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
	o.CacheControl, o.Marks = u.CacheControl != nil && *u.CacheControl || u.CacheControl == nil && u.marked(), u.marked()
	o.Breakpoints = u.Breakpoints != nil && *u.Breakpoints
	o.CacheKey = t.key
	o.NoEffort = u.Local() || u.preset().off != nil
	o.Progress = t.from.Traits().UsageFirst && u.preset().progress
	additions := httpx.AdditionsOf(r.Context())
	o.Plain = additions.Off.Has(wire.EditMarkers)
	if out, err = translate.Convert(t.from, t.to, in, o); err == nil && out.Added {
		additions.Make(wire.EditMarkers, nil)
	}
	return out, err
}

// rename replaces the client's model name by the upstream's.
func (t *translation) rename(in translate.Incoming) (*translate.Outgoing, error) {
	out := &translate.Outgoing{Body: in.Body, Path: in.Path, Query: in.Query, IncludeUsage: true}
	// Some formats have the model in the path.
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

// substitute replaces the request's URL, headers and body by the upstream's. The returned function
// restores the request, for the access log, error routes and a second pass.
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

// asked returns the properties of the request that its response's translation needs.
func (t *translation) asked(out *translate.Outgoing, query string) *translate.Answering {
	a := &translate.Answering{
		Stream: out.Stream, Usage: out.IncludeUsage, Names: out.Names, Stop: out.Stop, Empty: out.Empty,
		BufferCalls: t.p.buffers(), JoinCalls: t.p.JoinCalls, Created: time.Now().Unix(), Seed: strconv.FormatUint(xxhash.Sum64(out.Body), 36),
		Array: t.from.Array(out.Stream, query),
	}
	a.InlineThinking = !t.p.Official()
	if t.p.Local() && !t.p.Stateful() { // conversations are found again by the ids of their responses
		a.OwnID = rand.Text()
	}
	if t.p.Upstream.Model(out.Model) != out.Model {
		a.Model = out.Model // clients look up a model's properties by the name they know
	}
	return a
}
