// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package idlefold folds conversations on a local server while it is idle.
package idlefold

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
)

// Options fold conversations on a local server while it is idle. After an answer, old results and
// inputs of tools that are hardly needed any more are folded. The server then reads the shorter
// history by an internal request for one token. Later requests use these folds only once the server
// has read them. A client's request that comes earlier interrupts the reading and is forwarded as
// without the fold. Idle folding requires a queue, which knows when the server is idle, and a
// server with a free cached prefix; otherwise it does nothing.
type Options struct {
	// After is the delay between an answer and the reading, if the server is idle then. At most
	// 10m. Default: 1s.
	After caddy.Duration `json:"after,omitempty"`
	// CallTokens bounds the tokens to read after an answer with tool calls, because their results
	// are likely to arrive soon. 0 disables folding after such answers. Default: 8000.
	CallTokens *int `json:"call_tokens,omitempty"`
}

const (
	defaultFoldAfter      = time.Second
	defaultFoldCallTokens = 8000
)

// Validate returns an error for the first option out of its range. Nil is valid.
func (o *Options) Validate() error {
	switch {
	case o == nil:
	case o.After < 0 || time.Duration(o.After) > 10*time.Minute:
		return fmt.Errorf("after must be between 0s and 10m, got %s", time.Duration(o.After))
	case o.CallTokens != nil && (*o.CallTokens < 0 || *o.CallTokens > 1<<30):
		return fmt.Errorf("call_tokens must be between 0 and %d, got %d", 1<<30, *o.CallTokens)
	}
	return nil
}

// UnmarshalCaddyfile sets the options from Caddyfile tokens. Syntax:
//
//	idle_folding {
//		after       <duration>
//		call_tokens <tokens>
//	}
func (o *Options) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	if d.NextArg() {
		return d.ArgErr()
	}
	return option.Block(d, "idle_folding", option.Options{
		"after":       option.Checked(option.Duration(&o.After), o.Validate),
		"call_tokens": option.Checked(option.Number(&o.CallTokens), o.Validate),
	})
}
