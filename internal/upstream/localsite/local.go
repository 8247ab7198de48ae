// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package localsite is the feature of sites in front of a local server, which users share: it joins
// queue, overlay, heartbeats, detached work, warm-ups and idle folds to the handler's chain.
package localsite

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/feature"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/idlefold"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/local"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/overlay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/queue"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/warm"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// Local has users share a local server.
type Local struct {
	// Overlay keeps the prefix of the prompts that go to a local server as it is. Default: as the preset
	// says: on for local servers.
	Overlay *overlay.Rules `json:"overlay,omitempty"`

	// Queue bounds how many requests the upstream works on at a time. Default: no bound.
	Queue *local.Queue `json:"queue,omitempty"`

	// Warm has a local server read tools and system prompts before a request needs them. It needs a
	// queue. Default: nil, which sends nothing.
	Warm *warm.Options `json:"warm,omitempty"`

	// IdleFolding folds conversations on a local server while its queue is empty. It needs a queue.
	// Default: nil, which folds only in front of requests.
	IdleFolding *idlefold.Options `json:"idle_folding,omitempty"`

	// Heartbeat shows clients of streams that a silent upstream is at work. Default: on for servers that
	// run a model themselves.
	Heartbeat *local.Heartbeat `json:"heartbeat,omitempty"`

	// Rejoin is how long the upstream goes on with a request after the client has left. Should the same
	// request come again in that time, it is answered by that work, from its beginning. A request in the
	// queue, and an answer of more than 8 MiB, ends with its client. 0 ends all work with its client.
	// Default: 1m on servers that run a model themselves, 0 for hosted APIs.
	Rejoin *caddy.Duration `json:"rejoin,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (Local) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.llm_cache.local", New: func() caddy.Module { return new(Local) }}
}

func init() { caddy.RegisterModule(Local{}) }

// Interface guards
var (
	_ feature.Feature = (*Local)(nil)
	_ caddy.Validator = (*Local)(nil)
)

// CaddyfileOptions implements [feature.Feature].
func (l *Local) CaddyfileOptions() option.Options {
	return option.Options{
		"overlay":      local.ParseOverlay(&l.Overlay),
		"queue":        option.Guest(&l.Queue),
		"warm":         option.Guest(&l.Warm),
		"idle_folding": option.Guest(&l.IdleFolding),
		"heartbeat":    option.Guest(&l.Heartbeat),
		"rejoin":       option.OrOff(&l.Rejoin),
	}
}

// Validate reports the first option that makes no sense.
func (l *Local) Validate() error {
	for _, part := range [...]struct {
		name string
		of   interface{ Validate() error }
	}{
		{"overlay", l.Overlay},
		{"queue", l.Queue},
		{"warm", l.Warm},
		{"idle_folding", l.IdleFolding},
		{"heartbeat", l.Heartbeat},
	} {
		if err := part.of.Validate(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	switch {
	case l.Warm != nil && l.Queue == nil:
		return errors.New("warm: needs queue, which knows when the server is idle")
	case l.IdleFolding != nil && l.Queue == nil:
		return errors.New("idle_folding: needs queue, which knows when nobody waits")
	case l.Rejoin != nil && *l.Rejoin < 0:
		return fmt.Errorf("rejoin: %s is below zero", time.Duration(*l.Rejoin))
	}
	return nil
}

type part struct {
	*feature.Site
	*Local
	slots   *local.Slots // of the queue, nil without one
	overlay *local.Overlay
	rejoin  local.Rejoin
	warm    *warm.Site
	server  *warm.Server // of warm
	fold    *idlefold.Site

	every, open time.Duration // of heartbeats, 0 for none
}

// Open implements [feature.Feature].
func (l *Local) Open(s *feature.Site) (*feature.Part, error) {
	p := &part{Site: s, Local: l}
	layers := map[string]feature.Layer{}
	out := &feature.Part{Layers: layers}

	name := ""
	if l.Queue != nil {
		slots, err := local.QueuesOf(s.State).Open(l.Queue, s.Configured)
		if err != nil {
			return nil, err
		}
		s.Share(slots)
		s.WhenInForce(func() { l.Queue.Govern(slots.Of, s.Configured) })
		p.slots, name = slots.Of, slots.Key
		layers["queue"] = p.queued
		// Token counts and model lists need no slot, but must not flood the server.
		beside := local.NewBeside()
		layers["beside the queue"] = func(next caddyhttp.Handler, _ *feature.Request) caddyhttp.Handler {
			return beside.Layer(next)
		}
	}

	p.overlay = &local.Overlay{
		Rules: l.Overlay, Observe: s.Pipeline.Policy() == pipeline.Observe, Upstream: s.Upstream, Store: overlay.Of(s.State),
		Log: s.Log, Now: s.Now,
		Warn: func(r *http.Request, format wire.Format, err error) { s.Warn(r, format, local.ReasonOverlay, err) },
	}
	if p.overlay.Watches() {
		out.Rewrites = true
		layers["overlay"] = func(next caddyhttp.Handler, r *feature.Request) caddyhttp.Handler {
			return p.overlay.Layer(next, r.Format, local.Conversation{
				Session: r.Session, Tenant: r.Tenant, Ahead: r.Purpose == feature.Folding,
				Holdout: r.Edit != nil && r.Edit.Holdout(), View: r.View,
			})
		}
	}
	s.Upstream.Salt = p.cacheSalt

	p.rejoin = local.Rejoin{Detached: local.DetachedOf(s.State), Log: s.Log}
	if l.Queue != nil {
		p.rejoin.Queue = "queue " + name // which may be empty
	}
	switch {
	case l.Rejoin != nil:
		p.rejoin.Grace = time.Duration(*l.Rejoin)
	case s.Configured.Local():
		p.rejoin.Grace = local.DefaultGrace
	}
	if p.rejoin.Grace != 0 {
		layers["rejoin"] = p.rejoined
	}

	if l.Warm != nil && l.Queue != nil {
		server, err := warm.Of(s.State).Open(name, p.slots.Queue)
		if err != nil {
			return nil, err
		}
		s.Share(server)
		p.server = server.Of
		p.warm = &warm.Site{Options: l.Warm, Queue: name, Upstream: s.Upstream, Log: s.Log, Now: s.Now}
		s.WhenInForce(func() { p.server.Begin(p.warm) })
		layers["prefix recorder"] = p.recorded
		out.Sends |= selfrequest.WarmUp
	}
	if l.IdleFolding != nil && l.Queue != nil {
		p.fold = &idlefold.Site{
			Options: l.IdleFolding, Upstream: s.Upstream, Queue: p.slots.Queue, State: s.State, Log: s.Log, Now: s.Now,
		}
		out.Sends |= selfrequest.Fold
	}
	if p.warm != nil || p.fold != nil {
		out.Answered = p.answered
	}
	if p.every, p.open = l.Heartbeat.Intervals(s.Configured); p.every != 0 {
		out.Attend = p.attend
	}
	return out, nil
}

// cacheSalt returns a secret shared by the requests with common prefixes.
func (p *part) cacheSalt(r *http.Request) string {
	key := p.State.Tenants()
	if group := p.overlay.Sharing(r); group != "" {
		return key.Salt(group)
	}
	// Without a group, tenants share no prefixes.
	tenant := key.Of(r)
	return key.Salt(string(tenant[:]))
}

func side(r *feature.Request) bool {
	// Requests without tools are titles, topics and counts.
	return r.Side || r.Edit == nil || !r.Edit.OffersTools()
}

func (p *part) queued(next caddyhttp.Handler, r *feature.Request) caddyhttp.Handler {
	t := queue.Ticket{User: r.User, Side: side(r)}
	if r.View != nil {
		t.Conversation, t.Size = r.Session+r.View.First().String(), len(r.View.Raw)
	}
	return p.Queue.Layer(next, p.slots, r.Format, t, feature.Attachment[atomic.Pointer[local.Place]](r), &p.rejoin)
}

func (p *part) rejoined(next caddyhttp.Handler, r *feature.Request) caddyhttp.Handler {
	var asked local.Asked
	if p.Queue == nil || !side(r) {
		asked = local.Asked{Session: r.Session, Body: r.View.Raw}
	}
	return p.rejoin.Layer(next, r.Tenant, asked)
}

func (p *part) recorded(next caddyhttp.Handler, r *feature.Request) caddyhttp.Handler {
	prompt := feature.Attachment[warm.Prompt](r)
	prompt.Tenant, prompt.View, prompt.Side = r.Tenant, r.View, r.Side
	return p.warm.Layer(next, p.server, prompt)
}

func (p *part) attend(
	w http.ResponseWriter, r *http.Request, x *feature.Request, stamp func(http.Header),
) feature.Attendant {
	place := feature.Attachment[atomic.Pointer[local.Place]](x)
	alive := local.Stream{
		Every: p.every, Open: p.open, Events: x.View.Reply.Stream, Format: x.Format,
		Agent: r.UserAgent(), Stamp: func(to http.Header) {
			stamp(to)
			if at := place.Load(); at != nil {
				at.Stamp(to)
			}
		},
	}.Begin(w)
	if alive == nil {
		return nil
	}
	return alive
}

// answered counts a use of the prompt's base and plans an idle fold.
func (p *part) answered(a *feature.Answered) (goesOn bool) {
	if p.warm != nil {
		prompt := feature.Attachment[warm.Prompt](a.Request)
		httpx.Guard(p.Log, "remembering how a prompt begins", func() {
			p.server.Answered(prompt, p.Now(), p.Upstream.Reports() && a.Edit.Vanished(a.Turn), a.Target)
		})
	}
	if p.fold == nil {
		return false
	}
	if a.Err == nil && !a.Resent {
		f := p.fold.Plan(&idlefold.Answered{
			Exchange: a.Edit, View: a.View, Turn: a.Turn, Session: a.Session, Tenant: a.Tenant, Target: a.Target, Keep: a.Keep,
		})
		if f != nil {
			// The server reads the folded history when its queue is empty.
			f.Start()
		}
	}
	return true
}
