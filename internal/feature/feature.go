// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package feature is how the parts of llm_cache that only some sites need join its handler: each is a
// Caddy module with options, layers and hooks of its own, and the handler knows none of them.
package feature

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Namespace is the namespace of features among Caddy's modules.
const Namespace = "http.handlers.llm_cache"

// Feature is the configuration of a feature, a module in [Namespace].
type Feature interface {
	caddy.Module
	// CaddyfileOptions returns the feature's options, which stand among those of llm_cache.
	CaddyfileOptions() option.Options
	// Open opens the feature for a site. The handler opens all features, those without configuration too.
	Open(*Site) (*Part, error)
}

// All returns an empty configuration of each feature, by name.
func All() map[string]Feature {
	all := map[string]Feature{}
	for _, m := range caddy.GetModules(Namespace) {
		if f, ok := m.New().(Feature); ok {
			all[m.ID.Name()] = f
		}
	}
	return all
}

// Site is a handler as its features see it.
type Site struct {
	// State outlives the configuration.
	State *state.State
	// Upstream is the profile of the upstream, Configured its configuration, nil if it is inferred.
	Upstream   *upstream.Profile
	Configured *upstream.Upstream
	// Pipeline edits the prompts.
	Pipeline *pipeline.Pipeline
	// Log is the handler's logger, Now its clock.
	Log *zap.Logger
	Now func() time.Time
	// Warn reports a request that goes upstream without the feature, and why.
	Warn func(r *http.Request, format wire.Format, reason string, err error)
	// Parse parses a body of a tenant's conversation.
	Parse func(format wire.Format, body []byte, tenant sessioncache.Tenant) (*wire.View, error)
	// UpstreamKey tells the upstream of a request from others, CollectionKey that of the requests which
	// make the answers that a request is about.
	UpstreamKey   func(r *http.Request) string
	CollectionKey func(r *http.Request, x *resource.Resource) string
	// Serve serves a request of a client.
	Serve func(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error

	shares []interface{ Release() error }
	begin  []func()
}

// Share has something released with the configuration.
func (s *Site) Share(share interface{ Release() error }) { s.shares = append(s.shares, share) }

// Shares returns the shares that are released with the configuration.
func (s *Site) Shares() []interface{ Release() error } { return s.shares }

// WhenInForce has f called once the configuration is in force.
func (s *Site) WhenInForce(f func()) { s.begin = append(s.begin, f) }

// Begin is to be called once the configuration is in force.
func (s *Site) Begin() {
	for _, f := range s.begin {
		f()
	}
}

// Part is a feature of a site. Members may be nil.
type Part struct {
	// Layers are the feature's layers between handler and upstream, by their names in the handler's chain.
	Layers map[string]Layer
	// Sends are the kinds of internal requests that the feature sends through the site.
	Sends selfrequest.Kind
	// Rewrites reports that a layer makes another form of the body.
	Rewrites bool
	// Serve serves requests to upgrade the connection, such as WebSockets. It reports false for others.
	Serve func(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (served bool, err error)
	// Arrive is called when a request has arrived.
	Arrive func()
	// Complete returns the whole conversation of a partial request, which has its end only; nil if it is
	// not known. room reserves memory for a body.
	Complete func(r *http.Request, p *Request, v *wire.View, room func(int64) bool) *wire.View
	// Attend returns the writer of the answer to a request, nil for none. stamp writes the headers that
	// are known before the answer.
	Attend func(w http.ResponseWriter, r *http.Request, p *Request, stamp func(http.Header)) Attendant
	// Answered is called at the end of an answered request of a conversation. It reports whether the
	// feature goes on with the exchange.
	Answered func(*Answered) (goesOn bool)
	// Forget returns a function that forgets a stored answer, and reports whether it was stored nowhere
	// else. The request asks for its deletion, and may be changed later.
	Forget func(r *http.Request, x *resource.Resource) func() (ours bool)
	// Health returns the state of the feature for the health endpoint, nil for none.
	Health func() any
	// Close ends the feature with its configuration.
	Close func()
}

// Attendant is the writer of an answer that may have to be begun, or ended, by itself.
type Attendant interface {
	http.ResponseWriter
	// End ends the answer, given the handler's error, and returns the error that is left.
	End(err error) error
	// Stop gives up the answer after a panic. It does nothing after End.
	Stop()
}

// Layer returns next behind a layer, for a request, or next itself.
type Layer func(next caddyhttp.Handler, p *Request) caddyhttp.Handler

// Purpose is why a request goes upstream.
type Purpose uint8

// The purposes.
const (
	Conversing  Purpose = 1 << iota // a client's, of a conversation
	SideRequest                     // a client's on the side, where those have an upstream of their own
	Unparsed                        // a client's that was not understood
	Unlooked                        // a client's that was not looked at
	Slotless                        // a client's that takes no slot of a local server: a count of tokens, embeddings
	Pinging                         // ours, to keep a cache alive
	Folding                         // ours, for a local server to read a folded history
	Warming                         // ours, for a local server to read a base
)

// Request is a request on its way to the upstream.
type Request struct {
	Purpose Purpose
	// Side reports a request that the client itself calls auxiliary.
	Side bool
	// Partial reports that the client has sent the end of its conversation only; View is of the whole.
	Partial bool
	// Format is the client's.
	Format wire.Format
	Tenant sessioncache.Tenant
	// Upstream is the upstream's key, see [Site.UpstreamKey], as the client has addressed it.
	Upstream string
	// User is the name of the client's user.
	User string
	// Session is the public id of the session, empty if the request was not parsed. Name is the client's
	// own name of the conversation, empty without one.
	Session, Name string
	// View is the client's request, Edit the edited one; nil if it was not parsed.
	View *wire.View
	Edit *pipeline.Transaction

	attached []any
}

// Attachment returns the state of type T that a feature attaches to a request, zero at first.
func Attachment[T any](p *Request) *T {
	for _, a := range p.attached {
		if t, ok := a.(*T); ok {
			return t
		}
	}
	t := new(T)
	p.attached = append(p.attached, t)
	return t
}

// Answered is a request with its answer.
type Answered struct {
	*Request
	// Turn is the answer, which has come to its proper end.
	Turn *wire.Turn
	// Err is the handler's error, nil if the client has the answer. Resent reports that the answer is to
	// the request without our edits.
	Err    error
	Resent bool
	// SessionState is the session.
	SessionState *sessioncache.Session
	// Target returns the target of an internal request on the same route.
	Target func(body []byte) *selfrequest.Target
	// Keep stores folded texts.
	Keep func([]pipeline.Block)
}

// Load loads the configured features, and an empty configuration of each other one.
func Load(ctx caddy.Context, raw caddy.ModuleMap) (map[string]Feature, error) {
	all := All()
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if all[name] == nil {
			return nil, fmt.Errorf("features: %q is not one of %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		config := raw[name]
		if config == nil {
			config = []byte("{}")
		}
		f, err := ctx.LoadModuleByID(Namespace+"."+name, config)
		if err != nil {
			return nil, fmt.Errorf("features: %w", err)
		}
		all[name] = f.(Feature) //nolint:forcetypeassert // it was one above
	}
	return all, nil
}
