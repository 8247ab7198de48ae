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
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/overlay"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// reasonOverlay: a request went out without its overlay.
const reasonOverlay = "overlay"

// overlaying lays the overlay over requests that have the upstream's format by
// now. It stands behind the translation and before the dressing.
type overlaying struct {
	h      *Handler
	next   caddyhttp.Handler
	call   *call
	format wire.Format // the upstream's
	ahead  bool        // no client has asked: the conversation learns nothing
}

// overlaid returns next with the overlay before it, or next itself where the
// upstream is no box. A box is watched without a single rule, too.
func (h *Handler) overlaid(next caddyhttp.Handler, client wire.Format, c *call) caddyhttp.Handler {
	if !h.watches() {
		return next
	}
	return &overlaying{h: h, next: next, call: c, format: h.target(client)}
}

// foreseen is overlaid for a request that a conversation will begin with, and that
// is sent before the client sends it.
func (h *Handler) foreseen(next caddyhttp.Handler, client wire.Format, c *call) caddyhttp.Handler {
	o, ok := h.overlaid(next, client, c).(*overlaying)
	if !ok {
		return next
	}
	o.ahead = true
	return o
}

// watches tells whether prompts are compared with those before them.
func (h *Handler) watches() bool {
	return h.rules != overlay.Switches{} || h.Upstream.preset().overlay != overlay.Switches{} || !h.Upstream.reportsCache()
}

// switches returns the rules of the overlay that are in force.
func (h *Handler) switches() overlay.Switches {
	if h.Policy == pipeline.Observe {
		return overlay.Switches{}
	}
	return h.Overlay.Over(h.Upstream.preset().overlay)
}

// ServeHTTP implements caddyhttp.Handler.
func (o *overlaying) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	body, err := o.h.outgoing(r)
	if err != nil {
		return o.next.ServeHTTP(w, r) //nolint:nilerr // what is not understood passes untouched
	}
	var x *overlay.Exchange
	o.h.guard("laying the overlay over a request", func() { x, err = o.begin(r, body) })
	if x == nil {
		if err != nil && !errors.Is(err, overlay.ErrPartial) {
			o.h.failOpen(reasonOverlay)
			o.h.warn(r, o.format, bypass{reason: reasonOverlay, err: err})
		}
		return o.next.ServeHTTP(w, r)
	}
	if o.ahead {
		defer replaceOutgoing(r, body, x.Body)()
		return o.next.ServeHTTP(w, r)
	}
	o.call.common = x.Common
	a := &overlaidAnswer{ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, o: o, x: x}
	var original *http.Request
	if x.Edited {
		original = r.Clone(r.Context()) // what next does to r must not show in a second pass
	}
	restore := replaceOutgoing(r, body, x.Body)
	err = o.next.ServeHTTP(a, r)
	restore()
	if err != nil {
		return err
	}
	if !a.refused() {
		return a.finish()
	}
	metrics.resends.Inc()
	o.h.guard("giving up an overlay after a 400", x.Freeze)
	return o.next.ServeHTTP(w, isolate(original, w))
}

// begin lays the overlay over a request.
func (o *overlaying) begin(r *http.Request, body []byte) (*overlay.Exchange, error) {
	c := overlay.Conversation{Session: o.call.id, Tenant: string(o.call.tenant[:])}
	if group := o.h.group(r); group != "" {
		c.Group = "group " + group
	} else {
		t := o.h.state.tenant(r)
		c.Group = string(t[:])
	}
	return o.h.state.overlays.Begin(c, overlay.Request{
		Format: o.format, Body: body, Rules: o.h.rules, Markers: o.h.dress == nil || o.h.dress.cacheControl, At: o.h.now(),
	})
}

// group names those who share the fronts of their prompts with whoever asks.
func (h *Handler) group(r *http.Request) string {
	if h.Overlay == nil || h.Overlay.Group == "" {
		return ""
	}
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		return repl.ReplaceAll(h.Overlay.Group, "")
	}
	return ""
}

// overlaidAnswer looks at the upstream's answer for what it wrote, which the
// client may send back in other words. A 400 that the overlay may have caused is
// held.
type overlaidAnswer struct {
	*caddyhttp.ResponseWriterWrapper
	o       *overlaying
	x       *overlay.Exchange
	own     http.Header // apart from the client's as long as the answer may be dropped
	dec     *wire.Decoder
	stream  bool
	held    []byte
	holds   bool
	status  int
	settled bool
}

// Header returns the header map to fill.
func (a *overlaidAnswer) Header() http.Header {
	if a.x.Edited && a.status == 0 || a.own != nil {
		if a.own == nil {
			a.own = a.ResponseWriter.Header().Clone()
		}
		return a.own
	}
	return a.ResponseWriter.Header()
}

// WriteHeader decides, once, how the answer is dealt with.
func (a *overlaidAnswer) WriteHeader(status int) {
	if status < http.StatusOK {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	if a.status != 0 {
		return
	}
	h := a.Header()
	a.status = status
	if a.x.Edited && (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity) {
		a.holds = true
		return
	}
	if status/100 == 2 && contentCoding(h) == "" {
		switch kind := mediaType(h.Get("Content-Type")); {
		case kind == "text/event-stream":
			a.stream, a.dec = true, wire.NewDecoder(a.o.format, true)
		case isJSON(kind):
			a.dec = wire.NewDecoder(a.o.format, false)
		}
	}
	if status/100 == 2 {
		a.o.h.guard("keeping how a conversation begins", a.x.Accept)
	}
	a.release()
}

// release lets the header pass.
func (a *overlaidAnswer) release() {
	a.holds = false
	if a.own != nil {
		replace(a.ResponseWriter.Header(), a.own)
		a.own = nil
	}
	a.ResponseWriter.WriteHeader(a.status)
}

// Write implements io.Writer.
func (a *overlaidAnswer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.holds {
		if room := holdError - len(a.held); room > 0 {
			a.held = append(a.held, p[:min(room, len(p))]...)
		}
		return len(p), nil
	}
	// The conversation is up to date before anybody has seen the end of the
	// answer: the next request may come at once.
	if a.dec != nil {
		a.o.h.guard("reading an upstream's answer", func() {
			a.dec.Feed(p)
			if a.dec.Ended() || !a.stream && a.dec.Done() {
				a.settle()
			}
		})
	}
	return a.ResponseWriter.Write(p)
}

// ReadFrom hides the inner writer's, which would get round Write.
func (a *overlaidAnswer) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{a}, r)
}

// FlushError implements what http.ResponseController looks for. What is held
// stays held.
func (a *overlaidAnswer) FlushError() error {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.holds {
		return nil
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// suspect are the words by which an upstream's refusal names something that an
// overlay changes, besides those in blame.
var suspect = [][]byte{[]byte("role"), []byte("template"), []byte("system message"), []byte("tools"), []byte("chat_template")}

// refused tells whether the overlay may be what the upstream refused.
func (a *overlaidAnswer) refused() bool {
	if !a.holds {
		return false
	}
	text, err := decodeBody(contentCoding(a.own), a.held, 16*holdError, nil)
	if err != nil {
		return false
	}
	text = bytes.ToLower(text)
	for _, list := range [...][][]byte{blame, suspect} {
		for _, word := range list {
			if bytes.Contains(text, word) {
				return true
			}
		}
	}
	return false
}

// finish ends an answer that has not been cut.
func (a *overlaidAnswer) finish() error {
	if a.holds {
		held := a.held
		a.release()
		_, err := a.ResponseWriter.Write(held)
		return err
	}
	if a.status == 0 && a.own != nil { // another handler will answer
		replace(a.ResponseWriter.Header(), a.own)
		a.own = nil
	}
	return nil
}

// settle makes a whole answer part of the conversation, once.
func (a *overlaidAnswer) settle() {
	if a.settled || !a.dec.Done() {
		return
	}
	t := a.dec.Turn()
	if t.Failed() {
		return
	}
	a.settled = true
	a.x.Commit(t, a.o.h.Upstream.reportsCache())
	d := a.x.Divergence
	if d == nil {
		return
	}
	metrics.divergences.WithLabelValues(string(d.Cause)).Inc()
	if ce := a.o.h.logger.Check(zapcore.DebugLevel, "a prompt does not go on from the one before it"); ce != nil {
		ce.Write(zap.String("session", a.o.call.id), zap.String("cause", string(d.Cause)), zap.String("section", d.Section),
			zap.Int("block", d.Block), zap.Int("of", d.Of), zap.Float64("lost", d.Lost), zap.Time("at", d.At.UTC().Round(time.Millisecond)))
	}
}

// estimate puts what the upstream is likely to have found in its cache into a
// usage that does not say: the share of the prompt that it had been sent before.
func (c *call) estimate() {
	if c.h.Upstream.reportsCache() || c.turn == nil || !c.turn.Usage.Reported || c.turn.Usage.Read > 0 {
		return
	}
	u := &c.turn.Usage
	read := min(int64(c.common*float64(u.Prompt())), u.Uncached)
	u.Read, u.Uncached = read, u.Uncached-read
	c.estimated = true
}
