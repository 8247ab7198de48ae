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
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// Options ask for pings: requests that do nothing but keep the cache of an
// idle conversation alive at the upstream, where that is expected to pay. Only
// main conversations over the Anthropic Messages API are pinged, once they have
// read from the cache; never sub-agents and side requests. A ping is the last
// request that went upstream, up to its last cache marker, with `max_tokens` 0.
// It goes through the whole site like any other request, with the client's own
// credential, which is kept in memory, masked, for as long as a ping may
// follow. A credential that `reverse_proxy` sets by `header_up` needs none to
// be kept and is to be preferred.
type Options struct {
	// Every is the time from the start of the last request, or of the ping
	// before, to a ping. It must be shorter than the cache's lifetime by 15
	// seconds or more; for lifetimes where it is not, the default is used.
	// Default: nineteen twentieths of the lifetime, 4m45s for five minutes.
	Every caddy.Duration `json:"every,omitempty"`
	// Most is the number of pings that one pause may have. How many it gets is
	// decided by what they are expected to earn. Default: 24.
	Most *int `json:"most,omitempty"`
	// Floor is the length in tokens below which a prompt is not worth a ping.
	// Default: 20000.
	Floor *int `json:"floor,omitempty"`
	// Stake is the share of what a conversation has cost so far, by which its
	// pings may cost more than they have saved. Default: 0.1, but no more than keeps
	// the conversation from becoming dearer than without us by 4 %.
	Stake *float64 `json:"stake,omitempty"`
	// Tier says what is done where the long lifetime of the cache, an hour, has
	// proved cheaper for a tenant than the short one with its pings: "report"
	// tells so on the admin API and leaves the client's markers as they are;
	// "switch" gives them the long lifetime, in conversations that begin or
	// whose cache has expired, unless the client names a lifetime. Under the
	// policy observe nothing is switched. Default: report.
	Tier string `json:"tier,omitempty"`
	// Log decides whether pings stand in the access log. Default: false.
	Log *bool `json:"log,omitempty"`
}

// What is done where the long lifetime would be cheaper.
const (
	tierReport = "report"
	tierSwitch = "switch"
)

// The defaults of [Options].
const (
	defaultMost  = 24
	defaultFloor = 20000
	defaultStake = 0.1
	// reach is the least time that a ping must have to arrive in.
	reach = 15 * time.Second
)

// Validate reports the first option that makes no sense. Nil is valid.
func (k *Options) Validate() error {
	if k == nil {
		return nil
	}
	if every := time.Duration(k.Every); every != 0 && (every < 10*time.Second || every > time.Hour) {
		return fmt.Errorf("every: %s is not between 10s and 1h", every)
	}
	if k.Most != nil && (*k.Most < 1 || *k.Most > 1000) {
		return fmt.Errorf("most: %d is not between 1 and 1000", *k.Most)
	}
	if k.Floor != nil && (*k.Floor < 0 || *k.Floor > 1<<30) {
		return fmt.Errorf("floor: %d is not between 0 and %d", *k.Floor, 1<<30)
	}
	if k.Tier != "" && k.Tier != tierReport && k.Tier != tierSwitch {
		return fmt.Errorf("tier: %q is neither report nor switch", k.Tier)
	}
	if k.Stake != nil && !(*k.Stake >= 0 && *k.Stake <= 10) {
		return fmt.Errorf("stake: %v is not between 0 and 10", *k.Stake)
	}
	return nil
}

// dearest is the share by which pings that nobody comes back for may make a conversation
// dearer than its client's own bytes, unless an operator says what they may lose.
const dearest = 0.04

// stake is what the pings of a conversation may cost more than they have saved.
func (k *Options) stake(idle *pipeline.Idle) float64 {
	if k.Stake != nil {
		return *k.Stake*idle.Spent + idle.Kept
	}
	own := idle.Spent + idle.Saved
	return min(defaultStake*idle.Spent+idle.Kept, dearest*own+idle.Saved+min(0, idle.Kept))
}

// every is the time to the next ping for a cache of some lifetime.
func (k *Options) every(lifetime time.Duration) time.Duration {
	if every := time.Duration(k.Every); every != 0 && every <= lifetime-reach {
		return every
	}
	return lifetime * 19 / 20
}

// Limits bound the pings of all sites together.
type Limits struct {
	// Hourly is what all pings may cost within an hour, in US dollars. Where it
	// is set, models without a known price are not pinged. Default: no bound.
	Hourly float64 `json:"hourly,omitempty"`
	// TenantHourly is the same for each tenant. Default: no bound.
	TenantHourly float64 `json:"tenant_hourly,omitempty"`
	// InFlight is the number of pings sent at a time. Default: 4.
	InFlight int `json:"in_flight,omitempty"`
}

// Validate reports the first limit out of its range.
func (l *Limits) Validate() error {
	switch {
	case l == nil:
	case !(l.Hourly >= 0):
		return fmt.Errorf("hourly: %v is below 0", l.Hourly)
	case !(l.TenantHourly >= 0):
		return fmt.Errorf("tenant_hourly: %v is below 0", l.TenantHourly)
	case l.InFlight < 0 || l.InFlight > 1000:
		return fmt.Errorf("in_flight: %d is not between 1 and 1000", l.InFlight)
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

// jitter takes up to a thirtieth off a wait.
func jitter(wait time.Duration) time.Duration { return rand.N(wait/30 + 1) } //nolint:gosec // nobody gains by guessing it

// UnmarshalCaddyfile sets it up from Caddyfile tokens. Syntax:
//
//	keepalive {
//		every <duration>
//		most  <pings>
//		floor <tokens>
//		stake <share>
//		tier  report|switch
//		log   on|off
//	}
func (k *Options) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	if d.NextArg() {
		return d.ArgErr()
	}
	return option.Block(d, "keepalive", option.Options{
		"every": option.Checked(option.Duration(&k.Every), k.Validate),
		"most":  option.Checked(option.Number(&k.Most), k.Validate),
		"floor": option.Checked(option.Number(&k.Floor), k.Validate),
		"stake": option.Checked(option.Fraction(&k.Stake), k.Validate),
		"tier":  option.Checked(option.Word(&k.Tier), k.Validate),
		"log":   option.OnOff(&k.Log),
	})
}

// UnmarshalCaddyfile sets it up from Caddyfile tokens. Syntax:
//
//	keepalive {
//		hourly        <dollars>
//		tenant_hourly <dollars>
//		in_flight     <pings>
//	}
func (l *Limits) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	if d.NextArg() {
		return d.ArgErr()
	}
	return option.Block(d, "keepalive", option.Options{
		"hourly":        option.Checked(option.Above(option.Fraction, &l.Hourly), l.Validate),
		"tenant_hourly": option.Checked(option.Above(option.Fraction, &l.TenantHourly), l.Validate),
		"in_flight":     option.Checked(option.Above(option.Number, &l.InFlight), l.Validate),
	})
}
