// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// translation is the layer between the handler, which works in the client's
// format, and an upstream that speaks another one, goes by another name of the
// model, or whose tool calls are to be sent whole. It stands in the place of
// next, so that whatever is sent through it is translated: a resend and a
// continuation, too.
type translation struct {
	h        *Handler
	next     caddyhttp.Handler
	from, to wire.Format // the client's format and the upstream's
	key      string      // names the conversation to the upstream
}

// target returns the format that a request goes upstream in.
func (h *Handler) target(client wire.Format) wire.Format {
	if h.Upstream.speaks(client) || h.Translate != nil && !*h.Translate {
		return client
	}
	return h.Upstream.formats()[0]
}

// understood tells whether requests in a format can be forwarded at all: as they
// are, or translated.
func (h *Handler) understood(client wire.Format) bool {
	return h.Upstream.speaks(h.target(client))
}

// translating returns next with a translation before it, or next itself where
// there is nothing to translate.
func (h *Handler) translating(next caddyhttp.Handler, client wire.Format, key string) caddyhttp.Handler {
	to := h.target(client)
	if to == client && !h.Upstream.renames() && !h.buffers() {
		return next
	}
	return &translation{h: h, next: next, from: client, to: to, key: key}
}

func (h *Handler) buffers() bool {
	return h.BufferToolCalls != nil && *h.BufferToolCalls || h.joins()
}

func (h *Handler) joins() bool { return h.JoinToolCalls != nil && *h.JoinToolCalls }

// ServeHTTP implements caddyhttp.Handler. What the client is told of a request
// that cannot be translated is an answer, not an error: nothing can be forwarded.
func (t *translation) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	body, err := t.h.outgoing(r)
	if err != nil && t.from == t.to {
		return t.next.ServeHTTP(w, r) // whatever it is, the upstream speaks the same
	}
	var out *translate.Outgoing
	if err == nil {
		out, err = t.convert(r, body)
	}
	if err != nil {
		t.count(translationRefused)
		return t.answer(w, translate.Refusal(err))
	}
	a := newTranslatedAnswer(w, t, out, t.asked(out, r.URL.Query()))
	defer t.substitute(r, out)()
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
			t.h.logPanic("translating a request", p)
			t.h.failOpen(reasonPanic)
			err = errors.New("the request could not be translated")
		}
	}()
	in := translate.Incoming{Body: body, Path: r.URL.Path, Query: r.URL.RawQuery}
	if t.from == t.to {
		return t.rename(in)
	}
	u := t.h.Upstream
	o := translate.Options{Model: u.model, Official: u.official(), SystemMessages: u.SystemMessages}
	if u.MaxTokensDefault != nil {
		o.MaxTokens = *u.MaxTokensDefault
	}
	if u.NameLimit != nil {
		o.NameLimit = *u.NameLimit
	}
	o.CacheControl = u.CacheControl != nil && *u.CacheControl
	o.Breakpoints = u.Breakpoints != nil && *u.Breakpoints
	if t.to == wire.OpenAIChat || t.to == wire.OpenAIResponses {
		o.CacheKey = t.key
	}
	o.Progress = t.from == wire.Anthropic && u.preset().progress
	return translate.Convert(t.from, t.to, in, o)
}

// rename puts the upstream's name of the model in the place of the client's.
func (t *translation) rename(in translate.Incoming) (*translate.Outgoing, error) {
	out := &translate.Outgoing{Body: in.Body, Path: in.Path, Query: in.Query, IncludeUsage: true}
	if t.from == wire.Gemini {
		base, model, stream, ok := wire.GeminiPath(in.Path)
		out.Stream = stream
		if name := t.h.Upstream.model(model); ok && name != model {
			out.Model = model
			out.Path = base + name + in.Path[len(base)+len(model):]
		}
		return out, nil
	}
	view, err := wire.Parse(t.from, in.Body, nil)
	if err != nil {
		return out, nil //nolint:nilerr // what is not understood passes untouched
	}
	out.Stream = view.Stream
	if name := t.h.Upstream.model(view.Model); name != view.Model {
		value, err := json.Marshal(name)
		if err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
		if out.Body, err = wire.Patch(in.Body, wire.Member{Name: "model", Value: value}); err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
		out.Model = view.Model
	}
	return out, nil
}

// substitute makes the request the upstream's. The returned function puts back
// what was there before, for the access log, error routes and a second pass.
func (t *translation) substitute(r *http.Request, out *translate.Outgoing) (restore func()) {
	header, length, coding, address, uri := r.Header, r.ContentLength, r.TransferEncoding, r.URL, r.RequestURI
	body, getBody := r.Body, r.GetBody
	r.Header = maps.Clone(header)
	translate.Headers(t.from, t.to, r.Header, address.RawQuery)
	askPlain(r.Header)
	r.Header["Content-Length"] = []string{strconv.Itoa(len(out.Body))}
	delete(r.Header, "Content-Encoding")
	delete(r.Header, "Transfer-Encoding")
	r.ContentLength, r.TransferEncoding = int64(len(out.Body)), nil
	if out.Path != address.Path || out.Query != address.RawQuery {
		u := *address
		u.Path, u.RawPath, u.RawQuery = out.Path, "", out.Query
		r.URL, r.RequestURI = &u, u.RequestURI()
	}
	p := &payload{data: out.Body}
	p.attach(r)
	return func() {
		r.Header, r.ContentLength, r.TransferEncoding, r.URL, r.RequestURI = header, length, coding, address, uri
		r.Body, r.GetBody = body, getBody
		if t.from != t.to {
			p.recycle()
		}
	}
}

// answer tells the client of a failure in its own API's words.
func (t *translation) answer(w http.ResponseWriter, f *translate.Failure) error {
	status, body := f.Write(t.from)
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if f.RetryAfter > 0 && h.Get("Retry-After") == "" {
		h.Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

func (t *translation) count(outcome string) {
	metrics.translations.WithLabelValues(string(t.from), string(t.to), outcome).Inc()
}

// asked is what the answer has to know of the request.
func (t *translation) asked(out *translate.Outgoing, query url.Values) *translate.Answering {
	a := &translate.Answering{
		Stream: out.Stream, Usage: out.IncludeUsage, Names: out.Names, Stop: out.Stop, Empty: out.Empty,
		BufferCalls: t.h.buffers(), JoinCalls: t.h.joins(), Created: time.Now().Unix(), Seed: strconv.FormatUint(xxhash.Sum64(out.Body), 36),
		Array: t.from == wire.Gemini && out.Stream && query.Get("alt") != "sse",
	}
	if t.h.Upstream.model(out.Model) != out.Model {
		a.Model = out.Model // clients look up what a model can do by the name that they know
	}
	return a
}
