// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/overlay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// ReasonOverlay is the reason for a request forwarded without its overlay.
const ReasonOverlay = "overlay"

// Overlay is the part of the site that the layer needs.
type Overlay struct {
	// Rules are the site's rules, nil for the defaults.
	Rules *overlay.Rules
	// Observe compares prompts without changing them.
	Observe bool
	// Upstream is the site's upstream.
	Upstream *upstream.Profile
	// Store has the beginnings of conversations and their later notes.
	Store *overlay.Store
	// Log gets errors.
	Log *zap.Logger
	// Now returns the current time.
	Now func() time.Time
	// Warn reports a request forwarded without its overlay, and the reason.
	Warn func(r *http.Request, format wire.Format, err error)
}

// Conversation identifies a request's conversation.
type Conversation struct {
	// Session is the public id of the session.
	Session string
	// Tenant is the session's tenant.
	Tenant sessioncache.Tenant
	// Ahead marks an internal request, which does not change the conversation.
	Ahead bool
	// Holdout has prompts compared and not changed, as Observe does for all conversations.
	Holdout bool
	// View is the client's request, nil if it was not parsed.
	View *wire.View
}

// overlaying applies the overlay in the upstream's format: after the translation, before the changes for the
// server.
type overlaying struct {
	*Overlay
	Conversation
	next   caddyhttp.Handler
	format wire.Format // the upstream's format
}

// Layer returns next behind the overlay. A site has the layer if it [Overlay.Watches].
func (o *Overlay) Layer(next caddyhttp.Handler, client wire.Format, c Conversation) caddyhttp.Handler {
	return &overlaying{Overlay: o, Conversation: c, next: next, format: o.Upstream.Target(client)}
}

// Watches reports whether prompts are compared with earlier ones. A local server is observed even without
// a single rule.
func (o *Overlay) Watches() bool {
	return o.switches() != overlay.Switches{} || o.byDefault() != overlay.Switches{} || !o.Upstream.Reports()
}

func (o *Overlay) switches() overlay.Switches {
	// Observation compares prompts, but changes none.
	if o.Observe {
		return overlay.Switches{}
	}
	return o.Rules.Over(o.byDefault())
}

func (o *Overlay) byDefault() overlay.Switches {
	switch {
	case !o.Upstream.Local(), o.Upstream.Stateful():
		return overlay.Switches{}
	case o.Upstream.Unlisted():
		return overlay.Unlisted
	}
	return overlay.LocalServer
}

// ServeHTTP implements caddyhttp.Handler.
func (o *overlaying) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	additions := httpx.AdditionsOf(r.Context())
	if additions.Off.Has(wire.EditOverlay) {
		return o.next.ServeHTTP(w, r)
	}
	body, err := httpx.Outgoing(r, o.Upstream.MaxBody)
	if err != nil {
		return o.next.ServeHTTP(w, r) //nolint:nilerr // what is not understood passes untouched
	}
	var x *overlay.Transaction
	httpx.Guard(o.Log, "laying the overlay over a request", func() { x, err = o.begin(r, body) })
	if x == nil {
		if err != nil && !errors.Is(err, overlay.ErrPartial) {
			httpx.FailOpen(ReasonOverlay)
			o.Warn(r, o.format, err)
		}
		return o.next.ServeHTTP(w, r)
	}
	// An internal request must not change the conversation.
	if o.Ahead {
		defer httpx.SwapBody(r, body, x.Body)()
		return o.next.ServeHTTP(w, r)
	}
	httpx.Common(w, x.Common)
	a := &overlaidAnswer{o: o, x: x}
	a.Answer = httpx.NewAnswer(w, a)
	if x.Edited {
		additions.Make(wire.EditOverlay, func() { httpx.Guard(o.Log, "giving up an overlay", x.Freeze) })
	}
	defer httpx.SwapBody(r, body, x.Body)()
	httpx.SetView(r, x.View)
	if err := o.next.ServeHTTP(a, r); err != nil {
		return err
	}
	a.finish()
	return nil
}

func (o *overlaying) begin(r *http.Request, body []byte) (*overlay.Transaction, error) {
	c := overlay.Conversation{Session: o.Session, Tenant: string(o.Tenant[:]), Group: string(o.Tenant[:])}
	if group := o.Sharing(r); group != "" {
		c.Group = group
	}
	rules := o.switches()
	if o.Holdout {
		rules = overlay.Switches{}
	}
	view := httpx.View(r, o.format)
	if view == nil && o.View != nil && o.View.Format == o.format && httpx.Same(body, o.View.Raw) {
		view = o.View
	}
	return o.Store.Begin(c, overlay.Request{
		Format: o.format, Body: body, View: view, Rules: rules, Markers: o.Upstream.KeepsMarkers(), At: o.Now(),
	})
}

// Sharing returns the name of the group that shares prefixes with a request's tenant, "" if the
// tenant shares none.
func (o *Overlay) Sharing(r *http.Request) string {
	if o.Rules == nil || o.Rules.Group == "" {
		return ""
	}
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		if group := repl.ReplaceAll(o.Rules.Group, ""); group != "" {
			return "group " + group
		}
	}
	return ""
}

var divergences = metric.CounterOf("divergence_total",
	"Prompts to a box that did not go on from the one before them, by why.", "cause",
	string(overlay.CauseToolOrder), string(overlay.CauseToolAdded), string(overlay.CauseToolRemoved),
	string(overlay.CauseToolChanged), string(overlay.CauseSystem),
	string(overlay.CauseOpening), string(overlay.CauseAnswer), string(overlay.CauseHistory), string(overlay.CauseShorter),
	string(overlay.CauseBranch), string(overlay.CauseEvicted))

// overlaidAnswer records the upstream's answer.
type overlaidAnswer struct {
	httpx.Answer
	o       *overlaying
	x       *overlay.Transaction
	dec     *wire.Decoder
	stream  bool
	settled bool
}

// Begin implements [httpx.Receiver].
func (a *overlaidAnswer) Begin(status int) {
	h := a.Header()
	if status/100 == 2 && httpx.Coding(h) == "" {
		switch kind := httpx.MediaType(h.Get("Content-Type")); {
		case kind == "text/event-stream":
			// The client may send the answer back rewritten, so the model's own bytes are kept.
			a.stream, a.dec = true, wire.NewDecoder(a.o.format, true)
		case httpx.IsJSON(kind):
			a.dec = wire.NewDecoder(a.o.format, false)
		}
	}
	if status/100 == 2 {
		httpx.Guard(a.o.Log, "keeping how a conversation begins", a.x.Accept)
	}
	a.Send()
}

// Buffering implements [httpx.Receiver].
func (a *overlaidAnswer) Buffering() bool { return false }

// Take implements [httpx.Receiver].
func (a *overlaidAnswer) Take(p []byte) (int, error) {
	// Update the conversation before the client has the end of the answer: the next request may
	// come at once.
	if a.dec != nil {
		httpx.Guard(a.o.Log, "reading an upstream's answer", func() {
			a.dec.Feed(p)
			if a.dec.Ended() || !a.stream && a.dec.Done() {
				a.commit()
			}
		})
	}
	return a.ResponseWriter.Write(p)
}

func (a *overlaidAnswer) finish() {
	if a.stream && a.dec != nil {
		httpx.Guard(a.o.Log, "reading the end of an upstream's answer", func() {
			a.dec.End()
			a.commit()
		})
	}
}

func (a *overlaidAnswer) commit() {
	// The end of a stream is reported twice: by its last event and by the connection.
	if a.settled || !a.dec.Done() {
		return
	}
	t := a.dec.Turn()
	if t.Failed() {
		return
	}
	a.settled = true
	a.x.Commit(t, a.o.Upstream.Reports())
	d := a.x.Divergence
	if d == nil {
		return
	}
	divergences.WithLabelValues(string(d.Cause)).Inc()
	if ce := a.o.Log.Check(zapcore.DebugLevel, "a prompt does not go on from the one before it"); ce != nil {
		ce.Write(zap.String("session", a.o.Session), zap.String("cause", string(d.Cause)), zap.String("section", d.Section),
			zap.Int("block", d.Block), zap.Int("of", d.Of), zap.Float64("lost", d.Lost),
			zap.Time("at", d.At.UTC().Round(time.Millisecond)))
	}
}

// ParseOverlay parses the rules that keep the prefix of prompts stable. Syntax:
//
//	overlay [auto|on|off] {
//		group           <name>
//		billing_line    on|off
//		system_messages on|off
//		token_counters  on|off
//		tool_order      on|off
//		late_tools      on|off
//		pins            on|off
//		forms           on|off
//		exact_answers   on|off
//		thinking        on|off
//	}
func ParseOverlay(to **overlay.Rules) option.Option {
	return func(d *caddyfile.Dispenser) error {
		o := new(overlay.Rules)
		*to = o
		if d.NextArg() {
			o.Mode = overlay.Mode(d.Val())
		}
		if d.NextArg() {
			return d.ArgErr()
		}
		if err := o.Validate(); err != nil {
			return d.Errf("overlay: %v", err)
		}
		return option.Block(d, "overlay", option.Options{
			"group":           option.Word(&o.Group),
			"billing_line":    option.OnOff(&o.BillingLine),
			"system_messages": option.OnOff(&o.SystemMessages),
			"token_counters":  option.OnOff(&o.TokenCounters),
			"tool_order":      option.OnOff(&o.ToolOrder),
			"late_tools":      option.OnOff(&o.LateTools),
			"pins":            option.OnOff(&o.Pins),
			"forms":           option.OnOff(&o.Forms),
			"exact_answers":   option.OnOff(&o.ExactAnswers),
			"thinking":        option.OnOff(&o.Thinking),
		})
	}
}
