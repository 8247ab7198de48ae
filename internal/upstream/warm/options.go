// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package warm makes a local server read the common beginnings of prompts in advance.
package warm

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
)

// Options make a local server read prefixes in advance: the tools and system texts of its prompts.
// Warm-ups run when Caddy starts, after a reload, and after an apparent restart of the server. A
// warm-up is one request for one token with the base and a message of one character. It passes
// through the whole site with the credential of the last request with this base; the credential is
// kept in memory, masked. Warm-ups run one at a time, while the server is idle, and end as soon as
// a request comes. They require a queue, which knows when the server is idle.
//
// Behind `lb_policy llm_session`, each server gets each base. After a reload, a base used within
// the last ten minutes counts as warm.
type Options struct {
	// Prefixes is the number of prefixes to keep warm on a server: the most used ones, with a use halved
	// after a day. 1 to 64. Default: 4.
	Prefixes int `json:"prefixes,omitempty"`
	// Store is a folder that keeps prefixes over a restart of Caddy. Prefixes contain clients' texts, so
	// they are written to disk only with this option. Credentials are never written: after a
	// restart, warm-ups carry only credentials set by `reverse_proxy` with `header_up`. Default:
	// prefixes are kept in memory.
	Store string `json:"store,omitempty"`
	// Loaded is the time in which the model stays loaded, as hours of a day by the server's clock,
	// "08:00-18:30", optionally with days: "mon-fri 08:00-18:30". Default: never; the server
	// unloads the model by its own settings.
	Loaded string `json:"loaded,omitempty"`
	// Every is the idle time after which an internal request keeps the model loaded. 10s to 24h.
	// Default: 50m for lm_studio, which unloads after 60 minutes, and 4m for all others, because
	// ollama unloads after 5.
	Every caddy.Duration `json:"every,omitempty"`
}

const (
	defaultPrefixes = 4
	maxPrefixes     = 64
	// stillWarm is how long after its last use a base counts as warm at a reload.
	stillWarm = 10 * time.Minute
)

// Validate returns an error for the first invalid option. Nil is valid.
func (w *Options) Validate() error {
	if w == nil {
		return nil
	}
	if w.Prefixes < 0 || w.Prefixes > maxPrefixes {
		return fmt.Errorf("prefixes must be between 1 and %d, got %d", maxPrefixes, w.Prefixes)
	}
	if _, err := parseHours(w.Loaded); err != nil {
		return fmt.Errorf("loaded: %w", err)
	}
	if every := time.Duration(w.Every); every != 0 && (every < 10*time.Second || every > 24*time.Hour) {
		return fmt.Errorf("every must be between 10s and 24h, got %s", every)
	}
	if every := time.Duration(w.Every); every != 0 && w.Loaded == "" {
		return errors.New("every: says nothing without loaded")
	}
	return nil
}

func (w *Options) bases() int {
	if w.Prefixes == 0 {
		return defaultPrefixes
	}
	return w.Prefixes
}

func (w *Options) every(preset string) time.Duration {
	switch {
	case w.Every != 0:
		return time.Duration(w.Every)
	case preset == "lm_studio":
		// LM Studio unloads a model after 60 minutes.
		return 50 * time.Minute
	}
	// ollama unloads after 5.
	return 4 * time.Minute
}

// UnmarshalCaddyfile sets the options from Caddyfile tokens. Syntax:
//
//	warm {
//		prefixes <count>
//		store  <folder>
//		loaded [<days>] <from>-<to>
//		every  <duration>
//	}
func (w *Options) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	if d.NextArg() {
		return d.ArgErr()
	}
	if err := option.Block(d, "warm", option.Options{
		"prefixes": option.Count(&w.Prefixes),
		"store":    option.Word(&w.Store),
		"loaded":   hoursOf(w),
		"every":    option.Duration(&w.Every),
	}); err != nil {
		return err
	}
	if err := w.Validate(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func hoursOf(w *Options) option.Option {
	return func(d *caddyfile.Dispenser) error {
		args := d.RemainingArgs()
		if len(args) == 0 || len(args) > 2 {
			return d.ArgErr()
		}
		w.Loaded = strings.Join(args, " ")
		probe := Options{Loaded: w.Loaded}
		if err := probe.Validate(); err != nil {
			return d.WrapErr(err)
		}
		return nil
	}
}
