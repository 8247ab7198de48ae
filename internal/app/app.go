// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package app is the Caddy app `llm_cache`: the state that all handlers share, across reloads. It
// contains the session stores and audit stores, their modules, the routes of the admin API, and
// their metrics.
package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/clock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/originals"
)

// App is the Caddy app `llm_cache`: the state that all handlers share. It needs no configuration.
// The state outlives reloads.
type App struct {
	// StoreRaw is where sessions are kept. Default: memory.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=llm_cache.stores inline_key=module"`

	// AuditRaw is where a record of every turn is kept. Default: nowhere.
	AuditRaw json.RawMessage `json:"audit,omitempty" caddy:"namespace=llm_cache.audit inline_key=module"`

	// Originals keep folded texts on disk. Default: nil, in memory only.
	Originals *Originals `json:"originals,omitempty"`

	// Users name the users in the report, on the page, in records, metrics and queues, and limit
	// their spending. Unnamed users appear under their Caddy user ID, or else under 16 digits, a
	// keyed hash of their key.
	Users []User `json:"users,omitempty"`

	// Groups limit all users of a group together.
	Groups []Group `json:"groups,omitempty"`

	// Projects limit the spending for projects.
	Projects []Project `json:"projects,omitempty"`

	// Site limits all requests together.
	Site *Everything `json:"site,omitempty"`

	// RequireUsers refuses requests of unknown users by a 401: those without a configured key, a
	// name in a placeholder and an authentication by Caddy. Default: false, they pass.
	RequireUsers bool `json:"require_users,omitempty"`

	// UsersFile is a file with more users and groups, in the syntax of a Caddyfile. Its path may
	// contain placeholders. The file is read again when it changes; a file with mistakes changes
	// nothing and is logged. Default: none.
	UsersFile string `json:"users_file,omitempty"`

	// PricesFile is a models file with your own cache rules and prices, in the format of
	// the built-in one (docs/reference/models.md). Its members take the place of the
	// built-in ones. It may be named by placeholders, and is read when the configuration
	// is loaded. Default: none.
	PricesFile string `json:"prices,omitempty"`

	// PricesFrom refreshes cache rules and prices from a models file at a URL. Those of
	// PricesFile stay in front. Default: none, those of the program.
	PricesFrom *PricesFrom `json:"prices_from,omitempty"`

	// UnknownModels is the treatment of requests for models without a price in the models file:
	// `charge` charges them as the dearest model of their family, or else of their vendor,
	// `refuse` answers them with a 400. Models of local servers with a preset are never unknown.
	// Default: charge.
	UnknownModels string `json:"unknown_models,omitempty"`

	// KeepAlive limits the cost of the pings of all sites. Default: no limit in money.
	KeepAliveRaw json.RawMessage `json:"keepalive,omitempty" caddy:"module=llm_cache.keepalive"`

	// Memory is the memory in bytes that everything held for conversations and requests may
	// take: sessions 35 %, bodies of requests in flight 25 %, overlays and prompts that
	// upstreams keep 8 % each, translations 6 %, WebSockets of clients and llm_cache_origin 4 %
	// each, the rest for folded texts, answers of clients that left, pings and bases. Beyond a
	// share, entries give way: the least recently used one of the tenant with the most memory,
	// if that is more than a quarter of the share, otherwise the least recently used one of all
	// tenants. Of the bodies, one address and one tenant get up to three quarters while others
	// hold any. A request without room waits for up to 5 s, and uploads that stall meanwhile are
	// ended by 503. Then the request passes unread if the upstream takes the client's bytes
	// unchanged, and is answered by 503 with Retry-After otherwise. From 4 MiB
	// to 1 TiB. Default: a quarter of the memory of the machine, or of its container, from
	// 256 MiB to 4 GiB.
	Memory int64 `json:"memory,omitempty"`

	site      func() (any, error) // the configuration's http app
	http      *caddyhttp.App      // nil if there is none
	store     Store
	keepAlive section
	key       string
	share     *state.Share
	files     *originals.Files // that wait to take the place of others

	instance   *shared.Instance
	began      []func() // once it has come into force
	started    atomic.Bool
	audit      AuditStore
	auditShare *AuditShare
	spent      *allowance.Spending // read by openBudgets
	logger     *zap.Logger

	users     *atomic.Pointer[Directory]
	usersPath string // of the users file, "" for none
	usersRead fileState
	prices    *pricing.Table
	base      *pricing.Table     // of the program, without the files of the configuration
	storage   storage            // Caddy's
	refresh   context.CancelFunc // ends the refreshing of prices

	ownPrices *namedText // of PricesFile, nil for none
	unlearn   func()     // ends the reading of the record
}

// Store is the interface of modules in the namespace `llm_cache.stores`: a place for sessions.
type Store interface {
	// Identity names the state that this configuration of the module opens.
	// Configurations of one module with equal identities share one open
	// store, within a configuration and across reloads.
	Identity() string
	// Open opens the store.
	Open() (*sessioncache.Store, error)
	// Adjust applies the limits of this configuration to a store that an
	// earlier one may have opened. It is called when the configuration comes
	// into force.
	Adjust(*sessioncache.Store) error
}

// Secretive is a [Store] that gives the key by which tenants are told apart, so that
// sessions are found again by other processes. Without it each process has its own.
type Secretive interface {
	// Secret returns the key. It is asked for once a store is opened.
	Secret() secret.Key
}

// Beginner is a [Store] that opens something when a configuration starts, not yet when
// it is only looked at.
type Beginner interface {
	// Begin receives the store that Open returned. It may be called again.
	Begin(*sessioncache.Store) error
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache", New: func() caddy.Module { return new(App) }}
}

// Provision opens the store, or finds it open.
func (a *App) Provision(ctx caddy.Context) error {
	a.instance = shared.Of(ctx)
	if err := metric.Register(a.instance, ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	if err := a.Validate(); err != nil {
		return err
	}
	a.logger = ctx.Logger()
	if err := a.provisionAudit(ctx); err != nil {
		return err
	}
	a.users, a.usersPath = new(atomic.Pointer[Directory]), option.Expand(a.UsersFile)
	if err := a.loadUsers(); err != nil {
		return err
	}
	if err := a.provisionPrices(ctx); err != nil {
		return err
	}
	a.site = func() (any, error) { return ctx.AppIfConfigured("http") }
	if a.StoreRaw == nil {
		a.StoreRaw = caddyconfig.JSONModuleObject(new(MemoryStore), "module", "memory", nil)
	}
	v, err := ctx.LoadModule(a, "StoreRaw")
	if err != nil {
		return fmt.Errorf("loading the session store: %w", option.Missing(err))
	}
	store, ok := v.(Store)
	if !ok {
		return fmt.Errorf("loading the session store: %T keeps no sessions", v)
	}
	a.store = store
	if err := a.Originals.prepare(); err != nil {
		return fmt.Errorf("originals: %w", err)
	}
	a.key = string(v.(caddy.Module).CaddyModule().ID) + " " + store.Identity()
	switch store.(type) {
	case *MemoryStore, *DiskStore: // one memory, wherever its sessions are kept besides
		a.key = "memory"
	}
	if a.keepAlive, err = a.section(ctx, "keepalive", a.KeepAliveRaw); err != nil {
		return err
	}
	a.share, err = a.Share()
	return err
}

// Validate reports the first option that makes no sense.
func (a *App) Validate() error {
	if err := memory.Validate(a.Memory); err != nil {
		return err
	}
	switch a.UnknownModels {
	case "", chargeUnknown, refuseUnknown:
		return nil
	}
	return fmt.Errorf("unknown_models must be %s or %s, got %q", chargeUnknown, refuseUnknown, a.UnknownModels)
}

// The values of [App.UnknownModels].
const (
	chargeUnknown = "charge"
	refuseUnknown = "refuse"
)

// RefusesUnknown reports whether requests for unknown models are refused.
func (a *App) RefusesUnknown() bool { return a.UnknownModels == refuseUnknown }

// Directory has the users, with their budgets and models. It changes with the users file.
func (a *App) Directory() *atomic.Pointer[Directory] { return a.users }

// Prices are those of models.
func (a *App) Prices() *pricing.Table { return a.prices }

// Share takes one more share of the store.
func (a *App) Share() (*state.Share, error) {
	l, err := state.PoolOf(a.instance).Share(a.key, a.open)
	if err != nil {
		return nil, fmt.Errorf("opening the session store: %w", err)
	}
	return l, nil
}

// section is a module `llm_cache.<name>`, by which a feature reads its part of the app's configuration.
type section interface {
	// Govern applies the configuration to the state once it comes into force.
	Govern(s *state.State)
}

// section loads a module. Without configuration its defaults count.
func (*App) section(ctx caddy.Context, name string, raw json.RawMessage) (section, error) {
	if raw == nil {
		raw = json.RawMessage("{}")
	}
	v, err := ctx.LoadModuleByID("llm_cache."+name, raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s, ok := v.(section)
	if !ok {
		return nil, fmt.Errorf("%s: module %T does not implement Govern", name, v)
	}
	return s, nil
}

// open opens the store and the files of folded texts.
func (a *App) open() (*state.State, error) {
	files, err := a.Originals.open(a.logger)
	if err != nil {
		return nil, err
	}
	store, err := a.store.Open()
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	s := state.New(a.instance, store, files, clock.Machine)
	s.Folder, s.OnClose = a.Originals.folder(), func() { lastFailed.Delete(store) }
	// Sessions are known again after a restart.
	if k, ok := a.store.(Secretive); ok {
		s.Secret = k.Secret()
	} else if a.Originals != nil {
		s.Secret = a.Originals.key.Derive("tenants")
	}
	return s, nil
}

// running has the running configurations of an instance, the one in force first.
type running struct {
	sync.Mutex
	apps []*App
}

func runningOf(i *shared.Instance) *running {
	return shared.Part(i, func() *running { return new(running) })
}

// Start opens the stores, which may fail. The configuration comes into force as soon as no other one is.
func (a *App) Start() error {
	if v, err := a.site(); err == nil { // no sites, no pings
		a.http, _ = v.(*caddyhttp.App)
	}
	// A configuration that is only validated opens no files.
	if b, ok := a.store.(Beginner); ok {
		if err := b.Begin(a.share.Of.Store); err != nil {
			return fmt.Errorf("opening the session store: %w", err)
		}
	}
	a.share.Of.Tenants() // which are told apart like that from now on
	if err := a.openOriginals(); err != nil {
		return err
	}
	if err := a.openAudit(); err != nil {
		return err
	}
	if err := a.openBudgets(); err != nil {
		return err
	}
	refreshing, cancel := context.WithCancel(context.Background())
	a.refresh = cancel
	a.refreshPrices(refreshing)
	a.watchUsers(refreshing)
	// A new configuration comes into force when the old one stops. Caddy stops the old one once every app of the new
	// one has started, so a refused configuration never comes into force.
	a.started.Store(true)
	running := runningOf(a.instance)
	running.Lock()
	defer running.Unlock()
	running.apps = append(running.apps, a)
	if running.apps[0] == a {
		a.govern()
	}
	return nil
}

// Started reports whether the configuration's stores have answered, or were given up within the time
// that a start waits for them. Caddy may serve requests before.
func (a *App) Started() bool { return a.started.Load() }

// govern brings the configuration into force.
func (a *App) govern() {
	s := a.share.Of
	if err := a.store.Adjust(s.Store); err != nil {
		a.logger.Error("adjusting the session store", zap.Error(err))
	}
	s.RefreshTenants()
	if err := a.adjustOriginals(); err != nil {
		a.logger.Error("moving folded texts", zap.Error(err))
	}
	// Pings take their way through the sites of this configuration.
	s.Sender.Use(a.server)
	a.keepAlive.Govern(s)
	a.setMemory()
	a.adjustAudit()
	a.readRecord()
	for _, f := range a.began {
		f()
	}
}

// Stop hands over to the configuration that was started after this one. Without one the pings end.
func (a *App) Stop() error {
	// Background work on the store may outlive the configuration.
	running := runningOf(a.instance)
	running.Lock()
	defer running.Unlock()
	i := slices.Index(running.apps, a)
	if i < 0 {
		return nil
	}
	a.refresh()
	running.apps = slices.Delete(running.apps, i, i+1)
	if i > 0 { // it never was in force
		return nil
	}
	if a.unlearn != nil {
		a.unlearn()
	}
	s := a.share.Of
	if len(running.apps) == 0 || running.apps[0].share.Of != s {
		// No configuration in force uses this store any more.
		s.Rest()
	}
	if len(running.apps) > 0 {
		running.apps[0].govern()
	}
	return nil
}

// Cleanup releases the shares of the stores.
func (a *App) Cleanup() error {
	// Caddy does not stop the apps of a configuration that fails after they have started.
	_ = a.Stop()
	// The shares stay: the record may still be read in the background.
	return errors.Join(a.auditShare.Release(), a.files.Close(), a.share.Release())
}

// WhenInForce has f called each time the configuration comes into force. It is for
// handlers, while they are provisioned.
func (a *App) WhenInForce(f func()) { a.began = append(a.began, f) }

func (a *App) server(name string) http.Handler {
	if a.http == nil || a.http.Servers[name] == nil {
		return nil
	}
	return a.http.Servers[name]
}
