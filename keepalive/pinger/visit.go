// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Lifetime returns the cache lifetime to request for a tenant's session where the client sets none.
func (k *Keeper) Lifetime(o *Options, r *http.Request, tenant sessioncache.Tenant) sessioncache.Lifetime {
	switch {
	case o == nil || o.Tier != tierSwitch:
		return sessioncache.LifetimeAsked
	case k.Tiers.Long(tenant) && !ofAgent(r):
		return sessioncache.LifetimeLong
	}
	return sessioncache.LifetimeKept
}

func ofAgent(r *http.Request) bool { return r.Header.Get("X-Claude-Code-Agent-Id") != "" }

// Visit is a request in progress. Its conversation is not idle meanwhile.
type Visit struct {
	keeper  *Keeper
	options *Options
	session *sessioncache.Session
	ex      *pipeline.Transaction
	idle    keepalive.ID // the conversation that the request continues
	entered bool
	yielded bool               // the inner handler schedules the pings
	pause   *keepalive.Stretch // the pause that this request ends
}

// visitVar is the variable with the visit of the outer handler.
const visitVar = "llm_keepalive_visit"

// Enter reports to the schedule that a request continues a conversation. It returns nil if neither
// this handler nor an outer one has options.
func (k *Keeper) Enter(o *Options, r *http.Request, session *sessioncache.Session, x *pipeline.Transaction) *Visit {
	outer, _ := caddyhttp.GetVar(r.Context(), visitVar).(*Visit)
	if o == nil && outer != nil {
		o = outer.options
	}
	if o == nil {
		return nil
	}
	v := &Visit{keeper: k, options: o, session: session, ex: x}
	if outer != nil {
		// The inner handler sends the body that is cached upstream.
		outer.yield()
	}
	// This cancels a ping in flight at once, so the client does not wait.
	if conversation, ok := x.Continues(); ok {
		v.idle, v.entered = keepalive.ID{Session: session.ID(), Conversation: conversation}, true
		// The outer handler's Enter may already have ended the pause.
		if v.pause = k.Schedule.Enter(v.idle, k.now()); v.pause == nil && outer != nil && outer.idle == v.idle {
			v.pause = outer.pause
		}
	}
	caddyhttp.SetVar(r.Context(), visitVar, v)
	return v
}

func (v *Visit) yield() {
	// Only the innermost handler knows the prompt that is cached upstream.
	v.keeper.Schedule.Leave(v.idle, v.entered, nil)
	v.entered, v.yielded = false, true
}

// Answered is a request with its response: the material of a ping.
type Answered struct {
	// Request is the client's original request.
	Request *http.Request
	// View is the parsed request.
	View *wire.View
	// Sent is the body that went upstream.
	Sent []byte
	// Turn is the parsed response.
	Turn *wire.Turn
	// Tenant is the request's tenant.
	Tenant sessioncache.Tenant
	// Recorded is the tenant's name in the audit records, "" if there is none.
	Recorded string
	// Denied reports that the upstream refused the credential. Resent reports that it refused the
	// first body, and a second one was sent.
	Denied, Resent bool
	// Target returns the data to send a body over the same route as the request.
	Target func(body []byte) *selfrequest.Target
	// Log receives errors.
	Log *zap.Logger
}

// Leave lets the conversation fall idle, once its client has the whole response. It must be called
// exactly once, also for a failed request.
func (v *Visit) Leave(a *Answered) {
	if v.yielded {
		return
	}
	s := v.keeper.Schedule
	var t *keepalive.Target
	id := v.idle
	httpx.Guard(a.Log, "letting a conversation fall idle", func() {
		if a.Denied && v.session.Number() > 0 { // its other conversations would be refused as well
			s.Forget(v.session.ID())
		}
		conversation, ok := v.ex.Committed()
		if !ok {
			return
		}
		for _, n := range v.ex.Replaced() {
			s.Drop(keepalive.ID{Session: v.session.ID(), Conversation: n})
		}
		if v.entered && conversation != v.idle.Conversation { // a branch: the conversation that had this number has ended
			s.Drop(keepalive.ID{Session: v.session.ID(), Conversation: conversation})
		}
		if v.pause != nil {
			v.account(a)
		}
		if t = v.target(a); t == nil {
			return
		}
		if v.entered && conversation != v.idle.Conversation { // a branch
			s.Leave(v.idle, true, nil)
			v.entered = false
		}
		id = keepalive.ID{Session: v.session.ID(), Conversation: conversation}
	})
	s.Leave(id, v.entered, t)
	v.keeper.awake()
}

func (v *Visit) target(a *Answered) *keepalive.Target {
	o := v.options
	idle, ok := v.ex.Idle(a.Turn)
	if !ok || !a.View.Traits().Markers || a.Resent || idle.Prompt < int64(or(o.MinTokens, defaultMinTokens)) ||
		idle.Lifetime <= 0 || ofAgent(a.Request) {
		// After a resent request the cache has another prompt than Sent.
		return nil
	}
	body, ok := pingBody(a.View, a.Sent)
	if !ok {
		return nil
	}
	rules, u := idle.Rules.Served(v.ex.Service(a.Turn)), a.Turn.Usage
	maxTokens := a.View.Reply.MaxTokens // a copy: the closure must not keep the view and its credential alive
	// A return after expiry writes the prompt again, at the price of its lifetime.
	write := rules.Write
	if idle.Lifetime == rules.LongTTL {
		write = rules.Write1h
	}
	begun := v.keeper.at(v.ex.Start())
	habit := keepalive.Habit{
		Tenant: a.Tenant, Client: keepalive.Client(audit.ClientName(a.Request.UserAgent())),
		Hour: uint8(begun.Wall.Hour()),
	}
	if a.Recorded != "" { // habits learned under the recorded name outlive the process
		habit.Tenant = audit.TenantKey(a.Recorded)
	}
	return &keepalive.Target{
		Habit:    habit,
		Moment:   keepalive.Moment{Tool: idle.Tool, Question: idle.Question, Prompts: idle.Prompts, Pauses: idle.Pauses},
		Begun:    begun,
		Lifetime: idle.Lifetime,
		Every:    o.every(idle.Lifetime),
		MaxPings: or(o.MaxPings, defaultMaxPings),
		Prompt:   u.Prompt() - u.Uncached,
		Cold:     idle.Cold,
		Write:    write, Read: rules.Read, Dollars: rules.At(int(idle.Prompt)).Input / 1e6,
		MaxLoss: o.maxLoss(&idle),
		Payload: &conversation{
			Target: a.Target(body), session: v.session, conversation: idle.Conversation,
			price: func(u wire.Usage) (bounded wire.Usage, cost, dollars float64) {
				u, _ = rules.Bound(u, maxTokens)
				return u, rules.Cost(u) + rules.CostOutput(u), rules.Dollars(u)
			},
		},
	}
}

func or[T any](p *T, or T) T {
	if p == nil {
		return or
	}
	return *p
}

// account closes a pause: it counts the cost of the pings and the saving of the request after them.
func (v *Visit) account(a *Answered) {
	k, s := v.keeper, v.pause
	rules, u := v.ex.Rules(), a.Turn.Usage
	saved := 0.0
	write := rules.Write
	if s.Lifetime == rules.LongTTL {
		write = rules.Write1h
	}
	if s.Kept {
		saved = float64(u.Read) * (write - rules.Read)
	}
	tier := keepalive.Usage{New: u.Write5m, Pings: s.Cost, Write: rules.Write, WriteLong: rules.Write1h, Read: rules.Read}
	// The long lifetime would have kept these tokens in the cache.
	if s.Age > s.Lifetime && s.Age <= rules.LongTTL && !s.Kept {
		tier.New, tier.Anew = 0, u.Write5m
	}
	if rules.LongTTL > 0 && s.Lifetime < rules.LongTTL {
		k.Tiers.Add(a.Tenant, tier)
	}
	// A pause without pings only compares the lifetimes.
	if s.Pings == 0 {
		return
	}
	v.ex.Kept(saved - s.Cost)
	metrics.saved.Add(saved)
	k.mu.Lock()
	k.sum.Saved += saved
	k.mu.Unlock()
	if k.Watcher != nil {
		conversation, _ := v.ex.Committed()
		k.Watcher.Resumed(Pause{
			Session: v.session.ID(), Conversation: conversation, At: v.ex.Start(), Age: s.Age,
			Pings: s.Pings, Cost: s.Cost, Saved: saved,
		})
	}
}
