// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package llmcache

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
)

// parseApp sets up the app from the global options. The block may be repeated,
// in an imported file for instance, as long as no option is. Syntax:
//
//	{
//		llm_cache {
//			store <module> {
//				<options of the store>
//			}
//			keepalive {
//				<bounds of all pings>
//			}
//			audit [<module>] {
//				<options of the audit store>
//			}
//			originals memory|disk {
//				<options of the files>
//			}
//			bodies_in_flight <size>
//		}
//	}
//
// The one store there is so far, and the default:
//
//	store memory {
//		max_size <size>
//		idle_ttl <duration>
//	}
//
// The audit stores stand at parseAudit, the bounds of pings at
// parseKeepAliveLimits, the files of folded texts at parseOriginals.
func parseApp(d *caddyfile.Dispenser, existing any) (any, error) {
	app := new(handler.App)
	if before, ok := existing.(httpcaddyfile.App); ok {
		if err := json.Unmarshal(before.Value, app); err != nil {
			return nil, d.WrapErr(err)
		}
	}
	d.Next() // the name of the option
	if d.NextArg() {
		return nil, d.ArgErr()
	}
	err := parseBlock(d, "llm_cache", options{
		"store": func(d *caddyfile.Dispenser) error {
			if app.StoreRaw != nil {
				return d.Err("duplicate option \"store\"")
			}
			if !d.NextArg() {
				return d.ArgErr()
			}
			name := d.Val()
			store, err := caddyfile.UnmarshalModule(d, "llm_cache.stores."+name)
			if err != nil {
				return err
			}
			app.StoreRaw = caddyconfig.JSONModuleObject(store, "module", name, nil)
			return nil
		},
		"audit":     parseAudit(app),
		"keepalive": parseKeepAliveLimits(app),
		"originals": parseOriginals(app),
		"bodies_in_flight": func(d *caddyfile.Dispenser) error {
			if app.BodiesInFlight != 0 {
				return d.Err("duplicate option \"bodies_in_flight\"")
			}
			return checked(size(&app.BodiesInFlight), app.Validate)(d)
		},
	})
	if err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "llm_cache", Value: caddyconfig.JSON(app, nil)}, nil
}

// parseHandler sets up the handler from its directive, which is ordered before
// reverse_proxy. Every option may be left out. Syntax:
//
//	llm_cache [<matcher>] {
//		upstream [<preset>] {
//			format             anthropic|openai_chat|openai_responses|gemini
//			model              <name> <name of the upstream>
//			max_tokens_default <tokens>
//			drop               [<members...>]
//			body               <member> <json>
//			reasoning          reasoning_content|reasoning|none
//			cache_control      on|off
//			breakpoints        on|off
//			name_limit         <bytes>
//			system_messages    in_place|folded
//			reports_cache      on|off
//			cache_ttl        <duration>
//			cache_write      <multiple>
//			cache_read       <multiple>
//			cache_min_tokens <tokens>
//			context_window   <tokens>
//		}
//		policy cost_aware|eager|observe|off
//		zones {
//			frozen       <turns>
//			hot          <turns>
//			min_messages <messages>
//		}
//		admission [auto|on|off] {
//			ansi             on|off
//			carriage_returns on|off
//			blobs            on|off
//			long_lines       on|off
//			timestamps       on|off
//			repeats          on|off
//			passing_tests    on|off
//			progress         on|off
//			long_outputs     on|off
//			line_numbers     on|off
//			search_hits      on|off
//			echoes           on|off
//			rereads          on|off
//			overlaps         on|off
//			replaced         on|off
//		}
//		strip_thinking [auto|on|off]
//		compact_tool_results [auto|on|off] {
//			over <characters>
//		}
//		strip_narration [auto|on|off] {
//			under <characters>
//		}
//		prune [auto|on|off] {
//			after   <turns>
//			preview <lines>
//		}
//		expand [auto|on|off] {
//			names <name>...
//			usage summed|last
//		}
//		breakpoints [auto|on|off]
//		planner {
//			risk        <number>
//			fold_inputs on|off
//		}
//		translate         on|off
//		buffer_tool_calls on|off|joined
//		overlay [auto|on|off] {
//			group           <name>
//			billing_line    on|off
//			system_messages on|off
//			token_counters  on|off
//			tool_order      on|off
//			late_tools      on|off
//			pins            on|off
//			forms           on|off
//			exact_answers   on|off
//			thinking        on|off
//		}
//		queue [<name>] {
//			slots    <requests>
//			waiting  <requests>
//			patience <duration>
//		}
//		side_requests <address>... { … }, see parseSideRequests
//		warm         { … }, see parseWarm
//		idle_folding { … }, see parseIdleFolding
//		liveness [on|off] {
//			every <duration>
//			open  <duration>
//		}
//		linger <duration>|off
//		session_header <name>
//		tenant         <placeholder>...
//		max_body       <size>
//		headers        on|off
//		health         <path>
//		audit          on|off
//		keepalive      { … }, see parseKeepAlive
//	}
//
// Presets are anthropic, openai, gemini, mlx_lm, lm_studio, omlx, vllm_mlx,
// rapid_mlx, mlx_openai_server, swift_lm, ollama, llama_cpp and letta. Multiples are of the price of an uncached input
// token. What each option means and its default stand at the fields of
// handler.Handler, handler.Upstream and pipeline.Options.
func parseHandler(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	d := helper.Dispenser
	d.Next() // the name of the directive
	if d.NextArg() {
		return nil, d.ArgErr()
	}
	h := new(handler.Handler)
	err := parseBlock(d, "llm_cache", options{
		"upstream": func(d *caddyfile.Dispenser) error {
			h.Upstream = new(handler.Upstream)
			return parseUpstream(d, h.Upstream)
		},
		"policy": checked(word(&h.Policy), h.Options.Validate),
		"zones": func(d *caddyfile.Dispenser) error {
			if d.NextArg() {
				return d.ArgErr()
			}
			return parseBlock(d, "zones", options{
				"frozen":       checked(number(&h.Zones.Frozen), h.Options.Validate),
				"hot":          checked(number(&h.Zones.Hot), h.Options.Validate),
				"min_messages": checked(number(&h.Zones.MinMessages), h.Options.Validate),
			})
		},
		"admission": stage(h, "admission", &h.Admission.Mode, options{
			"ansi":             onOff(&h.Admission.ANSI),
			"carriage_returns": onOff(&h.Admission.CarriageReturns),
			"blobs":            onOff(&h.Admission.Blobs),
			"long_lines":       onOff(&h.Admission.LongLines),
			"timestamps":       onOff(&h.Admission.Timestamps),
			"repeats":          onOff(&h.Admission.Repeats),
			"passing_tests":    onOff(&h.Admission.PassingTests),
			"progress":         onOff(&h.Admission.Progress),
			"long_outputs":     onOff(&h.Admission.LongOutputs),
			"line_numbers":     onOff(&h.Admission.LineNumbers),
			"search_hits":      onOff(&h.Admission.SearchHits),
			"echoes":           onOff(&h.Admission.Echoes),
			"replaced":         onOff(&h.Admission.Replaced),
			"rereads":          onOff(&h.Admission.Rereads),
			"overlaps":         onOff(&h.Admission.Overlaps),
		}),
		"strip_thinking": stage(h, "strip_thinking", &h.StripThinking.Mode, nil),
		"compact_tool_results": stage(h, "compact_tool_results", &h.CompactToolResults.Mode, options{
			"over": checked(number(&h.CompactToolResults.Over), h.Options.Validate),
		}),
		"strip_narration": stage(h, "strip_narration", &h.StripNarration.Mode, options{
			"under": checked(number(&h.StripNarration.Under), h.Options.Validate),
		}),
		"prune": stage(h, "prune", &h.Prune.Mode, options{
			"after":   checked(number(&h.Prune.After), h.Options.Validate),
			"preview": checked(number(&h.Prune.Preview), h.Options.Validate),
		}),
		"expand":      expandOption(h),
		"breakpoints": stage(h, "breakpoints", &h.Breakpoints.Mode, nil),
		"planner": func(d *caddyfile.Dispenser) error {
			if d.NextArg() {
				return d.ArgErr()
			}
			return parseBlock(d, "planner", options{
				"risk":        checked(fraction(&h.Planner.Risk), h.Options.Validate),
				"fold_inputs": onOff(&h.Planner.FoldInputs),
			})
		},
		"translate":         onOff(&h.Translate),
		"buffer_tool_calls": parseBufferToolCalls(h),
		"session_header":    alone(word(&h.SessionHeader), func() handler.Handler { return handler.Handler{SessionHeader: h.SessionHeader} }),
		"tenant":            alone(atLeastOne(names(&h.Tenant)), func() handler.Handler { return handler.Handler{Tenant: h.Tenant} }),
		"max_body":          alone(size(&h.MaxBody), func() handler.Handler { return handler.Handler{MaxBody: h.MaxBody} }),
		"headers":           onOff(&h.Headers),
		"queue":             parseQueue(h),
		"side_requests":     parseSideRequests(h, helper),
		"warm":              parseWarm(h),
		"idle_folding":      parseIdleFolding(h),
		"overlay":           parseOverlay(h),
		"liveness":          parseLiveness(h),
		"linger":            parseLinger(h),
		"health":            alone(word(&h.Health), func() handler.Handler { return handler.Handler{Health: h.Health} }),
		"audit":             onOff(&h.Audit),
		"keepalive":         parseKeepAlive(h),
	})
	if err != nil {
		return nil, err
	}
	if err := h.Validate(); err != nil {
		return nil, d.WrapErr(err)
	}
	return h, nil
}

func parseBufferToolCalls(h *handler.Handler) option {
	return parsed(func(s string) error {
		on := s == "on"
		switch s {
		case "joined":
			on = true
			h.JoinToolCalls = &on
		case "on", "off":
			h.BufferToolCalls = &on
		default:
			return strconv.ErrSyntax
		}
		return nil
	}, "on, off or joined")
}

func parseUpstream(d *caddyfile.Dispenser, u *handler.Upstream) error {
	if d.NextArg() {
		u.Preset = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	if err := u.Validate(); err != nil {
		return d.WrapErr(err)
	}
	return parseBlock(d, "upstream", options{
		"model":              checked(modelName(&u.Models), u.Validate),
		"max_tokens_default": checked(number(&u.MaxTokensDefault), u.Validate),
		"drop":               checked(names(&u.Drop), u.Validate),
		"body":               checked(member(&u.Body), u.Validate),
		"reasoning":          checked(word(&u.Reasoning), u.Validate),
		"cache_control":      onOff(&u.CacheControl),
		"breakpoints":        onOff(&u.Breakpoints),
		"name_limit":         checked(number(&u.NameLimit), u.Validate),
		"system_messages":    checked(word(&u.SystemMessages), u.Validate),
		"reports_cache":      onOff(&u.ReportsCache),
		"format":             checked(word(&u.Format), u.Validate),
		"cache_ttl":          checked(duration(&u.CacheTTL), u.Validate),
		"cache_write":        checked(fraction(&u.CacheWrite), u.Validate),
		"cache_read":         checked(fraction(&u.CacheRead), u.Validate),
		"cache_min_tokens":   checked(number(&u.CacheMinTokens), u.Validate),
		"context_window":     checked(number(&u.ContextWindow), u.Validate),
	})
}

// option parses the rest of an option whose name has been read.
type option func(*caddyfile.Dispenser) error

// options are the options of a block, by name.
type options map[string]option

// repeatable are the options that may stand in a block more than once.
var repeatable = map[string]bool{"model": true, "body": true}

// parseBlock parses a block, if there is one, and refuses options that it does
// not know or has met before.
func parseBlock(d *caddyfile.Dispenser, of string, known options) error {
	seen := make(map[string]bool, len(known))
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		parse, ok := known[name]
		if !ok {
			return d.Errf("unrecognized option %q of %s", name, of)
		}
		if seen[name] && !repeatable[name] {
			return d.Errf("duplicate option %q of %s", name, of)
		}
		seen[name] = true
		if err := parse(d); err != nil {
			return err
		}
	}
	return nil
}

// checked parses an option and has the result judged while the line is known. The
// judge must not look at what other options say: they may stand behind it.
func checked(parse option, validate func() error) option {
	return func(d *caddyfile.Dispenser) error {
		if err := parse(d); err != nil {
			return err
		}
		if err := validate(); err != nil {
			return d.WrapErr(err)
		}
		return nil
	}
}

// alone is checked for an option of the handler itself, which is judged as if it
// were the only one.
func alone(parse option, only func() handler.Handler) option {
	return checked(parse, func() error {
		h := only()
		return h.Validate()
	})
}

// atLeastOne refuses an option without a value.
func atLeastOne(parse option) option {
	return func(d *caddyfile.Dispenser) error {
		if d.CountRemainingArgs() == 0 {
			return d.ArgErr()
		}
		return parse(d)
	}
}

// stage parses a stage: its mode and its own options, if it has any.
func stage[M ~string](h *handler.Handler, name string, mode *M, own options) option {
	return func(d *caddyfile.Dispenser) error {
		if d.NextArg() {
			*mode = M(d.Val())
		}
		if d.NextArg() {
			return d.ArgErr()
		}
		if err := h.Options.Validate(); err != nil {
			return d.WrapErr(err)
		}
		return parseBlock(d, name, own)
	}
}

func word[T ~string](to *T) option {
	return func(d *caddyfile.Dispenser) error {
		var s string
		if !d.AllArgs(&s) {
			return d.ArgErr()
		}
		if s == "" {
			return d.Errf("empty value")
		}
		*to = T(s)
		return nil
	}
}

func number(to **int) option {
	return parsed(func(s string) (err error) {
		var n int
		n, err = strconv.Atoi(s)
		*to = &n
		return err
	}, "a whole number")
}

func fraction(to **float64) option {
	return parsed(func(s string) (err error) {
		var f float64
		f, err = strconv.ParseFloat(s, 64)
		*to = &f
		return err
	}, "a number")
}

// duration refuses 0, which means absent in JSON; so does size.
func duration(to *caddy.Duration) option {
	return parsed(func(s string) error {
		t, err := caddy.ParseDuration(s)
		if err == nil && t <= 0 {
			err = strconv.ErrRange
		}
		*to = caddy.Duration(t)
		return err
	}, "a duration above zero")
}

func size(to *int64) option {
	return parsed(func(s string) error {
		n, err := humanize.ParseBytes(s)
		if err == nil && n == 0 {
			err = strconv.ErrRange
		}
		*to = int64(min(n, math.MaxInt64))
		return err
	}, "a size above zero")
}

func onOff(to **bool) option {
	return parsed(func(s string) error {
		on := s == "on"
		*to = &on
		if !on && s != "off" {
			return strconv.ErrSyntax
		}
		return nil
	}, "on or off")
}

// parsed reads the one value of an option.
func parsed(parse func(string) error, what string) option {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		var s string
		if !d.AllArgs(&s) {
			return d.ArgErr()
		}
		if err := parse(s); err != nil {
			return d.Errf("%s: %q is not %s", name, s, what)
		}
		return nil
	}
}
