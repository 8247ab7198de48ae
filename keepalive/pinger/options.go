// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// Options enable pings: requests that only keep the cache of an idle conversation alive at the
// upstream, where a return of the client is expected to pay for them. Only main conversations over
// the Anthropic Messages API are pinged, once they have read from the cache; never sub-agents and
// side requests. A ping is the last request that went upstream, up to its last cache marker, with
// `max_tokens` 0. It passes through the whole site like any other request, with the client's own
// credential. The credential stays in memory, masked, for as long as a ping may follow. To keep no
// credential in memory, set it by `header_up` of `reverse_proxy`.
type Options struct {
	// Every is the time from the start of the last request or ping to the next ping. It must be at
	// least 15 seconds shorter than the cache's lifetime; for shorter lifetimes the default
	// applies. Range: 10s to 1h. Default: 19/20 of the lifetime, 4m45s for five minutes.
	Every caddy.Duration `json:"every,omitempty"`
	// MaxPings is the maximum number of pings in one pause. The expected earnings decide how many of
	// them are sent. Range: 1 to 1000. Default: 24.
	MaxPings *int `json:"max_pings,omitempty"`
	// MinTokens is the minimum length of a prompt in tokens for a ping. Default: 20000.
	MinTokens *int `json:"min_tokens,omitempty"`
	// MaxLoss limits the loss by pings: they may cost more than they have saved by this share of the
	// conversation's cost so far. Range: 0 to 10. Default: 0.1, but no more than makes the
	// conversation 2 % dearer than the client's own requests would have been.
	MaxLoss *float64 `json:"max_loss,omitempty"`
	// Tier is the action for tenants for whom the cache's long lifetime, one hour, has proved
	// cheaper than the short one with pings. "report" shows them in the admin API and leaves the
	// client's markers alone. "switch" gives them the long lifetime, in conversations that begin or
	// have an expired cache, unless the client names a lifetime. The policy observe switches
	// nothing. Default: report.
	Tier string `json:"tier,omitempty"`
	// Log enables the access log for pings. Default: false.
	Log *bool `json:"log,omitempty"`
}

// The values of Tier.
const (
	tierReport = "report"
	tierSwitch = "switch"
)

// The defaults of [Options].
const (
	defaultMaxPings  = 24
	defaultMinTokens = 20000
	defaultMaxLoss   = 0.1
	// reach is the minimum time for a ping to arrive before the cache expires.
	reach = 15 * time.Second
)

// Validate returns an error for the first option out of range. Nil options are valid.
func (k *Options) Validate() error {
	if k == nil {
		return nil
	}
	if every := time.Duration(k.Every); every != 0 && (every < 10*time.Second || every > time.Hour) {
		return fmt.Errorf("every must be between 10s and 1h, got %s", every)
	}
	if k.MaxPings != nil && (*k.MaxPings < 1 || *k.MaxPings > 1000) {
		return fmt.Errorf("max_pings must be between 1 and 1000, got %d", *k.MaxPings)
	}
	if k.MinTokens != nil && (*k.MinTokens < 0 || *k.MinTokens > 1<<30) {
		return fmt.Errorf("min_tokens must be between 0 and %d, got %d", 1<<30, *k.MinTokens)
	}
	if k.Tier != "" && k.Tier != tierReport && k.Tier != tierSwitch {
		return fmt.Errorf("tier must be report or switch, got %q", k.Tier)
	}
	if k.MaxLoss != nil && !(*k.MaxLoss >= 0 && *k.MaxLoss <= 10) {
		return fmt.Errorf("max_loss must be between 0 and 10, got %v", *k.MaxLoss)
	}
	return nil
}

// maxOverrun is the share by which pings without a return may make a conversation dearer than the
// client's own bytes, unless the operator sets max_loss.
const maxOverrun = 0.02

// maxLoss is the maximum amount by which the pings of a conversation may cost more than they saved.
func (k *Options) maxLoss(idle *pipeline.Idle) float64 {
	if k.MaxLoss != nil {
		return *k.MaxLoss*idle.Spent + idle.Kept
	}
	// The cost of the client's own bytes.
	clientCost := idle.Spent + idle.Saved
	return min(defaultMaxLoss*idle.Spent+idle.Kept, maxOverrun*clientCost+idle.Saved+min(0, idle.Kept))
}

func (k *Options) every(lifetime time.Duration) time.Duration {
	if every := time.Duration(k.Every); every != 0 && every <= lifetime-reach {
		return every
	}
	// A twentieth of five minutes, the shortest lifetime, is reach.
	return lifetime * 19 / 20
}

// Limits limit the pings of all sites together. They are the section keepalive of the app block.
type Limits struct {
	// Hourly limits the cost of all pings within an hour, in US dollars. With a limit, models
	// without a known price are not pinged. Default: no limit.
	Hourly float64 `json:"hourly,omitempty"`
	// TenantHourly limits the cost of one tenant's pings within an hour, in US dollars. Default: no limit.
	TenantHourly float64 `json:"tenant_hourly,omitempty"`
	// InFlight is the maximum number of pings in flight. Range: 1 to 1000. Default: 4.
	InFlight int `json:"in_flight,omitempty"`
}

// Interface guards
var (
	_ caddy.Validator       = (*Limits)(nil)
	_ caddyfile.Unmarshaler = (*Limits)(nil)
)

// CaddyModule returns the Caddy module information.
func (Limits) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.keepalive", New: func() caddy.Module { return new(Limits) }}
}

// Govern applies the limits once their configuration is in force.
func (l *Limits) Govern(s *state.State) { Of(s).Use(l) }

// Validate returns an error for the first limit out of range.
func (l *Limits) Validate() error {
	switch {
	case l == nil:
	case !(l.Hourly >= 0):
		return fmt.Errorf("hourly: %v is below 0", l.Hourly)
	case !(l.TenantHourly >= 0):
		return fmt.Errorf("tenant_hourly: %v is below 0", l.TenantHourly)
	case l.InFlight < 0 || l.InFlight > 1000:
		return fmt.Errorf("in_flight must be between 1 and 1000, got %d", l.InFlight)
	}
	return nil
}

func (l *Limits) options() keepalive.Options {
	o := keepalive.Options{Jitter: jitter}
	if l != nil {
		o.Hourly, o.TenantHourly, o.Flying = l.Hourly, l.TenantHourly, l.InFlight
	}
	return o
}

func jitter(wait time.Duration) time.Duration {
	return rand.N(wait/30 + 1) //nolint:gosec // it need not be unpredictable
}

// UnmarshalCaddyfile sets up the options from Caddyfile tokens. Syntax:
//
//	keepalive {
//		every <duration>
//		max_pings  <pings>
//		min_tokens <tokens>
//		max_loss   <share>
//		tier  report|switch
//		log   on|off
//	}
func (k *Options) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	return option.Alone(d, "keepalive", option.Options{
		"every":      option.Checked(option.Duration(&k.Every), k.Validate),
		"max_pings":  option.Checked(option.Number(&k.MaxPings), k.Validate),
		"min_tokens": option.Checked(option.Number(&k.MinTokens), k.Validate),
		"max_loss":   option.Checked(option.Fraction(&k.MaxLoss), k.Validate),
		"tier":       option.Checked(option.Word(&k.Tier), k.Validate),
		"log":        option.OnOff(&k.Log),
	})
}

// UnmarshalCaddyfile sets up the limits from Caddyfile tokens. Syntax:
//
//	keepalive {
//		hourly        <dollars>
//		tenant_hourly <dollars>
//		in_flight     <pings>
//	}
func (l *Limits) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	return option.Alone(d, "keepalive", option.Options{
		"hourly":        option.Checked(option.Above(option.Fraction, &l.Hourly), l.Validate),
		"tenant_hourly": option.Checked(option.Above(option.Fraction, &l.TenantHourly), l.Validate),
		"in_flight":     option.Checked(option.Above(option.Number, &l.InFlight), l.Validate),
	})
}
