// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package caddytest runs Caddys for tests, several at once in one process. Counters of metrics are
// the process's, as Caddy's own are; everything else belongs to one Caddy.
package caddytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
)

// Caddy is a Caddy of a test. It does what [caddy.Load] and [caddy.Stop] do, which know one running
// configuration in a process.
type Caddy struct {
	// Instance has the state that its configurations share.
	Instance *shared.Instance

	running *configuration // nil for none
}

// New returns a Caddy that stops at the end of the test.
func New(t testing.TB) *Caddy {
	c := &Caddy{Instance: new(shared.Instance)}
	t.Cleanup(func() { c.Stop(t) })
	return c
}

// Load runs a configuration in JSON, in place of the one before. After an error, that one goes on.
func (c *Caddy) Load(text []byte) error {
	var cfg caddy.Config
	if err := caddy.StrictUnmarshalJSON(text, &cfg); err != nil {
		return err
	}
	next, err := start(c.Instance, &cfg)
	if err != nil {
		return err
	}
	before := c.running
	c.running = next
	return before.stop()
}

// Stop stops the Caddy, and waits for requests that outlast its grace period: a configuration loaded
// while they run would share their sessions.
func (c *Caddy) Stop(t testing.TB) {
	t.Helper()
	open := state.Open(c.Instance)
	if err := c.running.stop(); err != nil {
		t.Error(err)
	}
	c.running = nil
	Await(t, open)
}

// Await waits until no request runs on a state any more.
func Await(t testing.TB, states []*state.State) {
	t.Helper()
	end := time.Now().Add(5 * time.Second)
	for _, s := range states {
		for s.Pin() {
			s.Unpin()
			if time.Now().After(end) {
				t.Log("a request goes on after its Caddy")
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// configuration is a running configuration.
type configuration struct {
	apps   []caddy.App
	admin  *http.Server
	cancel context.CancelFunc
}

// starting guards what Caddy has once in a process: the default logger, certmagic's storage, and the
// cache of certificates, which the cleanup of any configuration removes.
var starting sync.Mutex

// start provisions and starts a configuration.
func start(i *shared.Instance, cfg *caddy.Config) (_ *configuration, err error) {
	starting.Lock()
	defer starting.Unlock()
	apps := cfg.AppsRaw
	cfg.AppsRaw = nil
	// Caddy has no public way to cancel this context. It gets no modules: those of its child are
	// cleaned up with the child.
	root, err := caddy.ProvisionContext(cfg)
	if err != nil {
		return nil, err
	}
	root.Context = i.With(root.Context)
	ctx, cancel := caddy.NewContext(root)
	c := &configuration{cancel: cancel}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stopApps())
			cancel()
		}
	}()
	cfg.AppsRaw = maps.Clone(apps)
	for name := range apps {
		if _, err := ctx.App(name); err != nil {
			return nil, err
		}
	}
	if err := c.startAdmin(ctx, cfg.Admin); err != nil {
		return nil, err
	}
	for _, m := range caddy.GetModules("") {
		v, err := ctx.AppIfConfigured(string(m.ID))
		if err != nil {
			continue // not an app of this configuration
		}
		app := v.(caddy.App)
		if err := app.Start(); err != nil {
			return nil, fmt.Errorf("%s app module: start: %w", m.ID, err)
		}
		c.apps = append(c.apps, app)
	}
	return c, nil
}

// stop stops the apps and cleans all modules up.
func (c *configuration) stop() (err error) {
	if c == nil {
		return nil
	}
	err = c.stopApps()
	starting.Lock()
	defer starting.Unlock()
	c.cancel()
	return err
}

func (c *configuration) stopApps() (err error) {
	for _, app := range c.apps {
		err = errors.Join(err, app.Stop())
	}
	if c.admin != nil {
		err = errors.Join(err, c.admin.Close())
	}
	return err
}

// startAdmin serves the routes that modules add to the admin API.
func (c *configuration) startAdmin(ctx caddy.Context, o *caddy.AdminConfig) error {
	if o == nil || o.Disabled || o.Listen == "" {
		return nil
	}
	mux := http.NewServeMux()
	for _, m := range caddy.GetModules("admin.api") {
		v, err := ctx.LoadModuleByID(string(m.ID), nil)
		if err != nil {
			return err
		}
		router, ok := v.(caddy.AdminRouter)
		if !ok {
			continue
		}
		for _, route := range router.Routes() {
			mux.HandleFunc(route.Pattern, func(w http.ResponseWriter, r *http.Request) {
				if err := route.Handler.ServeHTTP(w, r); err != nil {
					status := http.StatusInternalServerError
					if e, ok := errors.AsType[caddy.APIError](err); ok {
						status = e.HTTPStatus
					}
					w.WriteHeader(status)
					_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
				}
			})
		}
	}
	addr, err := caddy.ParseNetworkAddress(o.Listen)
	if err != nil {
		return err
	}
	// The configuration before may listen at the same address.
	l, err := addr.Listen(ctx, 0, net.ListenConfig{})
	if err != nil {
		return err
	}
	c.admin = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = c.admin.Serve(l.(net.Listener)) }()
	return nil
}
