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
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// App is the Caddy app `llm_cache`: what all handlers share. It needs no
// configuration. Its state outlives reloads.
type App struct {
	// StoreRaw is where sessions are kept. Default: memory.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=llm_cache.stores inline_key=module"`

	// AuditRaw is where a record of every turn is kept. Default: nowhere.
	AuditRaw json.RawMessage `json:"audit,omitempty" caddy:"namespace=llm_cache.audit inline_key=module"`

	// Originals keep folded texts on disk. Default: nil, in memory only.
	Originals *Originals `json:"originals,omitempty"`

	// KeepAlive bounds what the pings of all sites may cost. Default: money is
	// not bounded.
	KeepAlive *KeepAliveLimits `json:"keepalive,omitempty"`

	// BodiesInFlight is the memory in bytes that the bodies of all requests in
	// flight may take, in all forms in which they lie there: as sent, decoded,
	// edited, translated. A request that finds no room waits for up to 5 s. Then
	// it passes unread where the upstream takes it as it is, and is answered by
	// 503 with Retry-After elsewhere. It is one bound for the process. At least
	// 1 MiB. Default: 536870912 (512 MiB).
	BodiesInFlight int64 `json:"bodies_in_flight,omitempty"`

	site  func() (any, error) // the configuration's http app
	http  *caddyhttp.App      // nil if there is none
	store Store
	key   string
	lease *lease

	warms  []*Handler // that keep bases warm
	audit  AuditStore
	ledger *auditLease
	logger *zap.Logger

	unlearn func() // ends the reading of the record
}

// Store is what modules in the namespace `llm_cache.stores` implement: a place
// to keep sessions.
type Store interface {
	// Identity names the state that this configuration of the module opens.
	// Configurations of one module with equal identities share one open
	// store, within a configuration and across reloads.
	Identity() string
	// Open opens the store.
	Open() (sessioncache.Store, error)
	// Adjust applies the limits of this configuration to a store that an
	// earlier one may have opened. It is called when the configuration starts.
	Adjust(sessioncache.Store) error
}

// CaddyModule returns the Caddy module information.
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache", New: func() caddy.Module { return new(App) }}
}

// Provision opens the store, or finds it open.
func (a *App) Provision(ctx caddy.Context) error {
	if err := registerMetrics(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	if err := a.KeepAlive.Validate(); err != nil {
		return fmt.Errorf("keepalive: %w", err)
	}
	if err := a.Validate(); err != nil {
		return err
	}
	a.site = func() (any, error) { return ctx.AppIfConfigured("http") }
	if a.StoreRaw == nil {
		a.StoreRaw = caddyconfig.JSONModuleObject(new(MemoryStore), "module", "memory", nil)
	}
	v, err := ctx.LoadModule(a, "StoreRaw")
	if err != nil {
		return fmt.Errorf("loading the session store: %w", err)
	}
	store, ok := v.(Store)
	if !ok {
		return fmt.Errorf("loading the session store: %T keeps no sessions", v)
	}
	a.store = store
	if err := a.Originals.prepare(); err != nil {
		return fmt.Errorf("originals: %w", err)
	}
	a.key = string(v.(caddy.Module).CaddyModule().ID) + " " + store.Identity() + a.Originals.identity()
	a.logger = ctx.Logger()
	if a.lease, err = a.share(); err != nil {
		return err
	}
	return a.provisionAudit(ctx)
}

// Validate reports the first option that makes no sense.
func (a *App) Validate() error {
	if a.BodiesInFlight != 0 && a.BodiesInFlight < smallestBodies {
		return fmt.Errorf("bodies_in_flight: %d is below %d bytes", a.BodiesInFlight, smallestBodies)
	}
	return nil
}

// share takes one more share of the store.
func (a *App) share() (*lease, error) {
	l, err := acquire(a.key, a.open)
	if err != nil {
		return nil, fmt.Errorf("opening the session store: %w", err)
	}
	return l, nil
}

// open opens the store, and the files of folded texts if there are any.
func (a *App) open() (*state, error) {
	files, err := a.Originals.open(a.logger)
	if err != nil {
		return nil, err
	}
	store, err := a.store.Open()
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	s := newState(store, files)
	if a.Originals != nil { // sessions are known again after a restart
		s.key.secret = sessioncache.DeriveKey(a.Originals.key, "tenants")
	}
	return s, nil
}

// Start applies this configuration's limits to the store, and lets pings take
// their way through its sites.
func (a *App) Start() error {
	if err := a.store.Adjust(a.lease.state.Store); err != nil {
		return fmt.Errorf("adjusting the session store: %w", err)
	}
	a.Originals.adjust(a.lease.state)
	bodies.resize(cmp.Or(a.BodiesInFlight, defaultBodies))
	if v, err := a.site(); err == nil { // no sites, no pings
		a.http, _ = v.(*caddyhttp.App)
	}
	a.lease.state.keeper.use(a)
	if err := a.startAudit(); err != nil {
		return err
	}
	a.learn()
	a.warm()
	return nil
}

// Stop ends the pings unless another configuration has taken over. Nothing else
// is to be done: what runs on the store may outlive the configuration.
func (a *App) Stop() error {
	if a.lease.state.keeper.retire(a) {
		a.lease.state.rest()
	}
	if a.unlearn != nil {
		a.unlearn()
	}
	return nil
}

// Cleanup gives the shares of the stores back.
func (a *App) Cleanup() error {
	err := a.ledger.release()
	a.ledger = nil
	if a.lease == nil { // Provision failed before it took one
		return err
	}
	l := a.lease
	a.lease = nil
	return errors.Join(err, l.release())
}

// warm has boxes read what they may have lost.
func (a *App) warm() {
	for _, h := range a.warms {
		h.box().begin(h)
	}
}
