// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package llmcache

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/feature"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/origin"
)

// parseApp sets up the app from the global options. The block may be repeated, for example in an
// imported file, if no option is.
func parseApp(d *caddyfile.Dispenser, existing any) (any, error) {
	a := new(app.App)
	if before, ok := existing.(httpcaddyfile.App); ok {
		if err := json.Unmarshal(before.Value, a); err != nil {
			return nil, d.WrapErr(err)
		}
	}
	if err := a.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "llm_cache", Value: caddyconfig.JSON(a, nil)}, nil
}

// syntax is the page with all options.
//
//go:embed docs/reference/caddyfile.md
var syntax string

// parseHandler sets up the handler from its directive. Every option is optional. For the syntax see
// docs/reference/caddyfile.md, for meanings and defaults the fields of handler.Handler and of the
// features.
func parseHandler(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	d := helper.Dispenser
	d.Next() // the name of the directive
	if d.NextArg() {
		return nil, d.ArgErr()
	}
	h, features := new(handler.Handler), feature.All()
	if err := option.Block(d, "llm_cache", handlerOptions(h, features, helper)); err != nil {
		return nil, err
	}
	if err := h.Validate(); err != nil {
		return nil, d.WrapErr(err)
	}
	for _, name := range slices.Sorted(maps.Keys(features)) { // the same error for the same file
		f := features[name]
		if v, ok := f.(caddy.Validator); ok {
			if err := v.Validate(); err != nil {
				return nil, d.WrapErr(err)
			}
		}
		if raw := caddyconfig.JSON(f, nil); string(raw) != "{}" {
			if h.FeaturesRaw == nil {
				h.FeaturesRaw = caddy.ModuleMap{}
			}
			h.FeaturesRaw[name] = raw
		}
	}
	return h, nil
}

// handlerOptions are the options of the handler and of its features.
func handlerOptions(
	h *handler.Handler, features map[string]feature.Feature, helper httpcaddyfile.Helper,
) option.Options {
	all := option.Options{
		"upstream": option.Guest(&h.Upstream),
		"policy":   option.Checked(option.Word(&h.Policy), h.Options.Validate),
		"holdout":  option.Checked(option.Percent(&h.Holdout), h.Options.Validate),
		"zones": func(d *caddyfile.Dispenser) error {
			if d.NextArg() {
				return d.ArgErr()
			}
			return option.Block(d, "zones", option.Options{
				"frozen":       option.Checked(option.Number(&h.Zones.Frozen), h.Options.Validate),
				"hot":          option.Checked(option.Number(&h.Zones.Hot), h.Options.Validate),
				"min_messages": option.Checked(option.Number(&h.Zones.MinMessages), h.Options.Validate),
			})
		},
		"admission": stage(h, "admission", &h.Admission.Mode, option.Options{
			"passing_tests": option.OnOff(&h.Admission.PassingTests),
			"progress":      option.OnOff(&h.Admission.Progress),
			"line_numbers":  option.OnOff(&h.Admission.LineNumbers),
			"search_hits":   option.OnOff(&h.Admission.SearchHits),
			"echoes":        option.OnOff(&h.Admission.Echoes),
			"replaced":      option.OnOff(&h.Admission.Replaced),
			"rereads":       option.OnOff(&h.Admission.Rereads),
			"overlaps":      option.OnOff(&h.Admission.Overlaps),
		}),
		"strip_thinking": stage(h, "strip_thinking", &h.StripThinking.Mode, nil),
		"compact_tool_results": stage(h, "compact_tool_results", &h.CompactToolResults.Mode, option.Options{
			"min_chars": option.Checked(option.Number(&h.CompactToolResults.MinChars), h.Options.Validate),
		}),
		"strip_narration": stage(h, "strip_narration", &h.StripNarration.Mode, option.Options{
			"max_chars": option.Checked(option.Number(&h.StripNarration.MaxChars), h.Options.Validate),
		}),
		"prune": stage(h, "prune", &h.Prune.Mode, option.Options{
			"after":   option.Checked(option.Number(&h.Prune.After), h.Options.Validate),
			"preview": option.Checked(option.Number(&h.Prune.Preview), h.Options.Validate),
		}),
		"expand":      expandOption(h),
		"breakpoints": stage(h, "breakpoints", &h.Breakpoints.Mode, nil),
		"planner": func(d *caddyfile.Dispenser) error {
			if d.NextArg() {
				return d.ArgErr()
			}
			return option.Block(d, "planner", option.Options{
				"risk":        option.Checked(option.Fraction(&h.Planner.Risk), h.Options.Validate),
				"fold_inputs": option.OnOff(&h.Planner.FoldInputs),
				"restore":     option.OnOff(&h.Planner.Restore),
			})
		},
		"translate":         option.OnOff(&h.Translate),
		"buffer_tool_calls": parseBufferToolCalls(h),
		"session_header": alone(option.Word(&h.SessionHeader),
			func() handler.Handler { return handler.Handler{SessionHeader: h.SessionHeader} }),
		"tenant":  tenantOption(h),
		"project": option.AtLeastOne(option.Names(&h.Project)),
		"max_body": alone(option.Size(&h.MaxBody),
			func() handler.Handler { return handler.Handler{MaxBody: h.MaxBody} }),
		"headers": alone(option.Word(&h.Headers),
			func() handler.Handler { return handler.Handler{Headers: h.Headers} }),
		"side_requests": parseSideRequests(h, helper),
		"fallback":      parseFallback(h, helper),
		"coalesce": alone(option.OrOff(&h.Coalesce),
			func() handler.Handler { return handler.Handler{Coalesce: h.Coalesce} }),
		"health": alone(option.Word(&h.Health),
			func() handler.Handler { return handler.Handler{Health: h.Health} }),
		"audit":     option.OnOff(&h.Audit),
		"keepalive": option.Guest(&h.KeepAlive),
	}
	for _, f := range features {
		maps.Copy(all, f.CaddyfileOptions())
	}
	return all
}

// parseDashboard sets up the live page from its directive, which is ordered before
// reverse_proxy. Syntax:
//
//	llm_cache_dashboard [<matcher>]
func parseDashboard(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h := new(app.DashboardHandler)
	if err := h.UnmarshalCaddyfile(helper.Dispenser); err != nil {
		return nil, err
	}
	return h, nil
}

func parseBufferToolCalls(h *handler.Handler) option.Option {
	return option.Parsed(func(s string) error {
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

// parseOrigin sets up the handler llm_cache_origin from its directive, which is ordered
// before llm_cache.
func parseOrigin(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h := new(origin.Handler)
	return h, h.UnmarshalCaddyfile(helper.Dispenser)
}

// alone validates an option of the handler itself as if it were the only one.
func alone(parse option.Option, only func() handler.Handler) option.Option {
	return option.Checked(parse, func() error {
		h := only()
		return h.Validate()
	})
}

// stage parses a stage: its mode and its own options, if any.
func stage[M ~string](h *handler.Handler, name string, mode *M, options option.Options) option.Option {
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
		return option.Block(d, name, options)
	}
}

// expandOption parses the option expand of the handler. Syntax:
//
//	expand [auto|on|off] {
//		names <name>...
//		usage summed|last
//	}
func expandOption(h *handler.Handler) option.Option {
	return stage(h, "expand", &h.Expand.Mode, option.Options{
		"names": option.Checked(func(d *caddyfile.Dispenser) error {
			h.Expand.Names = d.RemainingArgs()
			if len(h.Expand.Names) == 0 {
				return d.ArgErr()
			}
			return nil
		}, h.Options.Validate),
		"usage": option.Checked(option.Word(&h.Expand.Usage), h.Options.Validate),
	})
}

// tenantOption parses the option tenant of the handler. Syntax:
//
//	tenant <placeholder>... {
//		ignore_credentials
//	}
func tenantOption(h *handler.Handler) option.Option {
	names := option.AtLeastOne(option.Names(&h.Tenant))
	return alone(func(d *caddyfile.Dispenser) error {
		if err := names(d); err != nil {
			return err
		}
		return option.Block(d, "tenant", option.Options{"ignore_credentials": option.Flag(&h.IgnoreCredentials)})
	}, func() handler.Handler {
		return handler.Handler{Tenant: h.Tenant, IgnoreCredentials: h.IgnoreCredentials}
	})
}

// parseSideRequests reads the upstream for side requests, with all options of reverse_proxy.
// Syntax:
//
//	side_requests <address>... {
//		<options of reverse_proxy>
//	}
func parseSideRequests(h *handler.Handler, helper httpcaddyfile.Helper) option.Option {
	return func(d *caddyfile.Dispenser) error {
		segment := d.NewFromNextSegment()
		proxy := new(reverseproxy.Handler)
		if err := proxy.UnmarshalCaddyfile(segment); err != nil {
			return err
		}
		if err := proxy.FinalizeUnmarshalCaddyfile(helper); err != nil {
			return err
		}
		if len(proxy.Upstreams) == 0 && proxy.DynamicUpstreamsRaw == nil {
			return d.Err("side_requests: no address is given")
		}
		h.SideRequestsRaw = caddyconfig.JSONModuleObject(proxy, "handler", "reverse_proxy", nil)
		return nil
	}
}

// parseFallback reads the handlers that serve requests which the upstream does not. Syntax:
//
//	fallback {
//		<directives>
//	}
func parseFallback(h *handler.Handler, helper httpcaddyfile.Helper) option.Option {
	return func(d *caddyfile.Dispenser) error {
		if d.NextArg() {
			return d.ArgErr()
		}
		routes, err := httpcaddyfile.ParseSegmentAsSubroute(helper.WithDispenser(d.NewFromNextSegment()))
		if err != nil {
			return err
		}
		if sub, ok := routes.(*caddyhttp.Subroute); !ok || len(sub.Routes) == 0 {
			return d.Err("fallback: no directive is given, such as reverse_proxy")
		}
		h.FallbackRaw = caddyconfig.JSONModuleObject(routes, "handler", "subroute", nil)
		return nil
	}
}
