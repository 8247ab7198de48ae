// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
)

const (
	// DefaultTTL is the lifetime of unused entries.
	DefaultTTL = 3 * time.Hour

	maxTTL = 7 * 24 * time.Hour
)

// Options says what the upstream holds of conversations, so that requests need carry no
// more than what is new.
type Options struct {
	// Origin says that the upstream is a Caddy with llm_cache_origin. Requests go there
	// as the difference to what it has been sent before. One that turns out to be
	// something else gets them whole. Default: false.
	Origin bool `json:"origin,omitempty"`
	// Threads has requests of the Messages API whose history the provider keeps go there
	// without it, for clients that send all of it: on, off, or auto, which does so from 1
	// MiB on. Prices do not change; what changes is the upload, and the time to the first
	// token. Clients that keep their conversations in threads themselves always may.
	// Default: off.
	Threads string `json:"threads,omitempty"`
	// WebSocket has requests of the Responses API go to the upstream over WebSockets, with
	// what is new and the answer that it goes on from, for clients that POST all of it and
	// have the provider keep nothing (store false), as coding agents do. Prices do not
	// change; what changes is the upload, and the time to the first token. What cannot go
	// that way goes as POST. Default: false.
	WebSocket bool `json:"websocket,omitempty"`
	// TTL is for how long what is not used is kept, at most 7 days. Default: 3h.
	TTL caddy.Duration `json:"ttl,omitempty"`
}

// Validate reports the first option that makes no sense. Nil is valid.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	switch o.Threads {
	case "", Off, On, Auto:
	default:
		return fmt.Errorf("threads: %q is not on, off or auto", o.Threads)
	}
	if o.Origin && o.WebSocket {
		return errors.New("websocket: an origin keeps bodies, not connections")
	}
	return ValidateTTL(o.TTL)
}

// The values of [Options.Threads].
const (
	Off  = "off"
	On   = "on"
	Auto = "auto"
)

// autoThreads is the smallest request, in bytes, that auto sends to a thread.
const autoThreads = 1 << 20

// Threaded reports whether a request of that size gets a thread without the client's own wish.
func (o *Options) Threaded(size int) bool {
	return o != nil && (o.Threads == On || o.Threads == Auto && size >= autoThreads)
}

// ValidateTTL reports a lifetime out of range. 0 stands for the default.
func ValidateTTL(ttl caddy.Duration) error {
	if t := time.Duration(ttl); t != 0 && (t < time.Second || t > maxTTL) {
		return fmt.Errorf("ttl must be between 1s and 7d, got %s", t)
	}
	return nil
}

// Life is the lifetime of unused entries, also for nil options.
func (o *Options) Life() time.Duration {
	if o == nil {
		return DefaultTTL
	}
	return cmp.Or(time.Duration(o.TTL), DefaultTTL)
}

// UnmarshalCaddyfile sets the options up from Caddyfile tokens. Syntax:
//
//	retain origin|threads on|off|auto|websocket on|off {
//		ttl <duration>
//	}
func (o *Options) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	switch args := d.RemainingArgs(); {
	case len(args) == 1 && args[0] == "origin":
		o.Origin = true
	case len(args) == 2 && args[0] == "threads":
		if o.Threads = args[1]; o.Validate() != nil {
			return d.Errf("retain threads must be on, off or auto, got %q", args[1])
		}
	case len(args) == 2 && args[0] == "websocket":
		if args[1] != On && args[1] != Off {
			return d.Errf("retain websocket must be on or off, got %q", args[1])
		}
		o.WebSocket = args[1] == On
	case len(args) == 0 || len(args) > 2 || args[0] == "origin" || args[0] == "threads" || args[0] == "websocket":
		return d.ArgErr()
	default:
		return d.Errf("retain must be origin, threads or websocket, got %q", args[0])
	}
	return option.Block(d, "retain", option.Options{
		"ttl": option.Checked(option.Duration(&o.TTL), o.Validate),
	})
}
