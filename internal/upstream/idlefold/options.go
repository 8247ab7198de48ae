// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package idlefold folds conversations on a box while nobody waits.
package idlefold

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
)

// Options fold conversations on a box while nobody waits. When an answer has
// come to its end, old results and inputs of tools that are hardly needed any more
// are folded, and the box reads the shorter history by a request of ours for one
// token. Only once it has read it is the next request sent with these folds. That
// one, or any other, ends the reading if it comes before, and goes out as it
// would have gone. It needs a queue, which knows when nobody waits, and a box
// whose cached prefix is free; elsewhere it does nothing.
type Options struct {
	// After is how long after an answer the reading begins, if the box is idle
	// then. At most 10m. Default: 1s.
	After caddy.Duration `json:"after,omitempty"`
	// CallTokens bounds what the box has to read, in tokens, where the answer
	// calls tools, whose results are likely to be there soon. 0 for not folding
	// then. Default: 8000.
	CallTokens *int `json:"call_tokens,omitempty"`
}

const (
	defaultFoldAfter      = time.Second
	defaultFoldCallTokens = 8000
)

// Validate reports the first option out of its range. Nil is valid.
func (o *Options) Validate() error {
	switch {
	case o == nil:
	case o.After < 0 || time.Duration(o.After) > 10*time.Minute:
		return fmt.Errorf("after: %s is not between 0s and 10m", time.Duration(o.After))
	case o.CallTokens != nil && (*o.CallTokens < 0 || *o.CallTokens > 1<<30):
		return fmt.Errorf("call_tokens: %d is not between 0 and %d", *o.CallTokens, 1<<30)
	}
	return nil
}

// UnmarshalCaddyfile sets it up from Caddyfile tokens. Syntax:
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
