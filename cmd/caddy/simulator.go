// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
)

const (
	// maxPace bounds the pace of a simulated stream.
	maxPace = time.Minute
	// maxSubscription bounds the worth of a simulated window, in US dollars.
	maxSubscription = 1_000_000
)

func init() {
	caddy.RegisterModule(Simulator{})
	httpcaddyfile.RegisterDirective("llm_cache_simulator", parseSimulator)
	// This directive is registered after llm_cache, so its order is between llm_cache and reverse_proxy.
	httpcaddyfile.RegisterDirectiveOrder("llm_cache_simulator", httpcaddyfile.Before, "reverse_proxy")
}

// Simulator responds like a language model's API without a model: Messages, chat completions,
// Responses and Gemini, streamed or not, token counts and model lists. It sends a short fixed text,
// or the answers of a script, and reports the tokens that a provider's prompt cache would have read
// and written. It rejects the requests that the provider's API rejects.
type Simulator struct {
	// Profile names the provider to simulate: anthropic-5m, anthropic-1h, opus-5.5, fable-5.2,
	// openai, gemini or kv. Default: the provider of the requested model; an unknown model counts
	// as one on a local server with free cache reads.
	Profile string `json:"profile,omitempty"`
	// Script is the path of a JSON file with an array of answers. A request that offers tools gets
	// the answer with the number of answers in the request as its index. Default: a short text for
	// every request.
	Script string `json:"script,omitempty"`
	// InOrder sends the script's answers one request after another, regardless of their contents. A
	// step that fails or is cut off repeats until it is answered completely. Use it with one client
	// at a time. Default: off.
	InOrder bool `json:"in_order,omitempty"`
	// Pace is the delay before each event of a stream. At most 1m. Default: 0.
	Pace caddy.Duration `json:"pace,omitempty"`
	// Subscription is the worth of a five-hour usage window in US dollars at list prices. Messages and
	// Responses answers then report the windows of a subscription. Default: none.
	Subscription float64 `json:"subscription,omitempty"`

	handler *simulator.Handler
	cache   *shared.Share[*cache]
}

// caches have the state of the simulated providers, by profile. The state survives reloads, like a
// real provider's.
var caches = shared.NewPool[*cache]()

type cache struct {
	shared.Pins
	*pricing.Simulator
}

// Close implements [shared.Value]. There is nothing to release.
func (*cache) Close() error { return nil }

// CaddyModule returns the Caddy module information.
func (Simulator) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.llm_cache_simulator",
		New: func() caddy.Module { return new(Simulator) },
	}
}

// Provision reads the script and acquires the profile's state.
func (s *Simulator) Provision(caddy.Context) error {
	config := pricing.SimulatorConfig{
		Rules: func(model string, at time.Time) pricing.Rules { return pricing.Lookup("", model, at) },
	}
	if s.Profile != "" {
		profile, err := pricing.ProfileByName(s.Profile)
		if err != nil {
			return err
		}
		config = profile.Config()
	}
	h := &simulator.Handler{Pace: time.Duration(s.Pace), Subscription: s.Subscription}
	if s.Script != "" {
		path, err := caddy.NewReplacer().ReplaceOrErr(s.Script, true, true)
		if err != nil {
			return fmt.Errorf("script: %w", err)
		}
		if h.Script, err = simulator.ReadScript(path); err != nil {
			return err
		}
		h.Script.InOrder = s.InOrder
	}
	var err error
	if s.cache, err = caches.Share(s.Profile,
		func() (*cache, error) { return &cache{Simulator: pricing.NewSimulator(config)}, nil }); err != nil {
		return err
	}
	h.Cache = s.cache.Of.Simulator
	s.handler = h
	return nil
}

// Validate rejects a pace or a subscription out of range.
func (s *Simulator) Validate() error {
	if pace := time.Duration(s.Pace); pace < 0 || pace > maxPace {
		return fmt.Errorf("pace must be between 0 and %s, got %s", maxPace, pace)
	}
	if s.Subscription < 0 {
		return fmt.Errorf("subscription must be above $0, got %g", s.Subscription)
	}
	return nil
}

// Cleanup releases the profile's state.
func (s *Simulator) Cleanup() error { return s.cache.Release() }

// ServeHTTP answers every request; it never calls the next handler.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	s.handler.ServeHTTP(w, r)
	return nil
}

// parseSimulator rejects a script path that would be taken for a path matcher.
func parseSimulator(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next() // the directive
	// A handler after such a matcher is never reached, and every request would get an empty 200.
	if h.NextArg() && strings.HasPrefix(h.Val(), "/") && namesFile(h.Val()) {
		return nil,
			h.Errf("%s would be taken for a path matcher: an absolute path has to stand inside the block, as script %[1]s",
				h.Val())
	}
	h.Reset()
	h.Next()
	matchers, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, err
	}
	s := new(Simulator)
	if err := s.UnmarshalCaddyfile(h.Dispenser); err != nil {
		return nil, err
	}
	return h.NewRoute(matchers, s), nil
}

// namesFile reports whether a path is a script.
func namesFile(path string) bool {
	if strings.EqualFold(filepath.Ext(path), ".json") {
		// No API endpoint ends in .json.
		return true
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// UnmarshalCaddyfile reads:
//
//	llm_cache_simulator [<script>] {
//		script       <path>
//		in_order     on|off
//		profile      <name>
//		pace         <duration>
//		subscription $<amount>
//	}
//
// An absolute path must be inside the block. After the directive it is rejected,
// because Caddy would take it for a path matcher.
func (s *Simulator) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive
	if d.NextArg() {
		s.Script = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	seen := map[string]bool{"script": s.Script != ""}
	for d.NextBlock(0) {
		option := d.Val()
		if seen[option] {
			return d.Errf("%s stands twice", option)
		}
		seen[option] = true
		var value string
		if !d.AllArgs(&value) {
			return d.ArgErr()
		}
		switch option {
		case "script":
			s.Script = value
		case "in_order":
			if value != "on" && value != "off" {
				return d.Errf("in_order must be on or off, got %q", value)
			}
			s.InOrder = value == "on"
		case "profile":
			if _, err := pricing.ProfileByName(value); err != nil {
				return d.WrapErr(err)
			}
			s.Profile = value
		case "pace":
			pace, err := caddy.ParseDuration(value)
			if err != nil || pace < 0 || pace > maxPace {
				return d.Errf("pace: %q is no duration between 0 and %s", value, maxPace)
			}
			s.Pace = caddy.Duration(pace)
		case "subscription":
			amount, isDollars := strings.CutPrefix(value, "$")
			worth, err := strconv.ParseFloat(amount, 64)
			if err != nil || !isDollars || !(worth > 0 && worth <= maxSubscription) {
				return d.Errf("subscription must be an amount such as $20, at most $%d, got %q", maxSubscription, value)
			}
			s.Subscription = worth
		default:
			return d.Errf("unknown option %q", option)
		}
	}
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Simulator)(nil)
	_ caddy.Validator             = (*Simulator)(nil)
	_ caddy.CleanerUpper          = (*Simulator)(nil)
	_ caddyhttp.MiddlewareHandler = (*Simulator)(nil)
	_ caddyfile.Unmarshaler       = (*Simulator)(nil)
)
