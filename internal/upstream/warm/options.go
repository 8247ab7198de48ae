// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package warm has a box read what its prompts begin with before anybody waits for it.
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

// Options have a box read the bases of its prompts, tools and system text, before
// anybody waits for them: when Caddy starts, after a reload, and when the box
// seems to have been restarted. A warm-up is one request for one token with the
// base and a message of one character. It goes through the whole site with the
// credential of the last request that had this base, which is kept in memory,
// masked. It runs only while the box has nothing else to do, one at a time, and
// ends as soon as somebody comes. It needs a queue, which knows when that is.
//
// With several boxes behind `lb_policy llm_session` each is sent each base. A
// base that has been used within ten minutes counts as warm after a reload.
type Options struct {
	// Bases is how many are kept warm on a box: those used most, where a use
	// counts half as much after a day. 1 to 64. Default: 4.
	Bases int `json:"bases,omitempty"`
	// Store is a folder where bases are kept over a restart of Caddy. They are
	// what clients sent, so they lie on disk only if it is given. Credentials
	// never do: what is sent after a start has none but those that
	// `reverse_proxy` sets by `header_up`. Default: bases are kept in memory.
	Store string `json:"store,omitempty"`
	// Loaded is when the model is to stay loaded, as hours of a day by the
	// server's clock, "08:00-18:30", with days before them, if not all:
	// "mon-fri 08:00-18:30". Default: never; the server unloads it as it is set
	// to.
	Loaded string `json:"loaded,omitempty"`
	// Every is the time without requests after which the model is kept loaded
	// by one of ours. 10s to 24h. Default: 50m for lm_studio, which unloads
	// after 60 minutes, and 4m for all others, as ollama does after 5.
	Every caddy.Duration `json:"every,omitempty"`
}

const (
	defaultBases = 4
	mostBases    = 64
	// stillWarm is how long after its last use a base is not sent again at a reload.
	stillWarm = 10 * time.Minute
)

// Validate reports the first option that makes no sense. Nil is valid.
func (w *Options) Validate() error {
	if w == nil {
		return nil
	}
	if w.Bases < 0 || w.Bases > mostBases {
		return fmt.Errorf("bases: %d is not between 1 and %d", w.Bases, mostBases)
	}
	if _, err := parseHours(w.Loaded); err != nil {
		return fmt.Errorf("loaded: %w", err)
	}
	if every := time.Duration(w.Every); every != 0 && (every < 10*time.Second || every > 24*time.Hour) {
		return fmt.Errorf("every: %s is not between 10s and 24h", every)
	}
	if every := time.Duration(w.Every); every != 0 && w.Loaded == "" {
		return errors.New("every: says nothing without loaded")
	}
	return nil
}

func (w *Options) bases() int {
	if w.Bases == 0 {
		return defaultBases
	}
	return w.Bases
}

// every is how long the box may be idle while its model is to stay loaded.
func (w *Options) every(preset string) time.Duration {
	switch {
	case w.Every != 0:
		return time.Duration(w.Every)
	case preset == "lm_studio":
		return 50 * time.Minute
	}
	return 4 * time.Minute
}

// UnmarshalCaddyfile sets it up from Caddyfile tokens. Syntax:
//
//	warm {
//		bases  <count>
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
		"bases":  option.Count(&w.Bases),
		"store":  option.Word(&w.Store),
		"loaded": hoursOf(w),
		"every":  option.Duration(&w.Every),
	}); err != nil {
		return err
	}
	if err := w.Validate(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// hoursOf parses when a model is to stay loaded.
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
