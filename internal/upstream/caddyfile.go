// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"encoding/json"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
)

// UnmarshalCaddyfile sets the upstream up from Caddyfile tokens. Syntax:
//
//	upstream [<preset>] {
//		format             anthropic|openai_chat|openai_responses|gemini|interactions
//		model              <name> <name of the upstream>
//		max_tokens_default <tokens>
//		drop               [<members...>]
//		body               <member> <json>
//		reasoning          reasoning_content|reasoning|none
//		cache_control      on|off
//		breakpoints        on|off
//		max_tool_name      <bytes>
//		system_messages    in_place|folded
//		reports_cache      on|off
//		cache_ttl        <duration>
//		cache_write      <multiple>
//		cache_read       <multiple>
//		cache_min_tokens <tokens>
//		context_window   <tokens>
//		key              <placeholder>
//		region           <region> [<host>]
//		agents {
//			embedding <model>
//			block     <label>
//			tools     <names...>
//			limit     <number>
//		}
//	}
//
// Multiples are relative to the price of an uncached input token.
// region makes the signer aws sign requests for Amazon Bedrock in that region, for the host
// bedrock-runtime.<region>.amazonaws.com unless another host is given.
func (u *Upstream) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	if d.NextArg() {
		u.Preset = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	if err := u.Validate(); err != nil {
		return d.WrapErr(err)
	}
	return option.Block(d, "upstream", option.Options{
		"model":              option.Checked(modelName(&u.Models), u.Validate),
		"max_tokens_default": option.Checked(option.Number(&u.MaxTokensDefault), u.Validate),
		"drop":               option.Checked(option.Names(&u.Drop), u.Validate),
		"body":               option.Checked(member(&u.Body), u.Validate),
		"reasoning":          option.Checked(option.Word(&u.Reasoning), u.Validate),
		"cache_control":      option.OnOff(&u.CacheControl),
		"breakpoints":        option.OnOff(&u.Breakpoints),
		"max_tool_name":      option.Checked(option.Number(&u.MaxToolName), u.Validate),
		"system_messages":    option.Checked(option.Word(&u.SystemMessages), u.Validate),
		"reports_cache":      option.OnOff(&u.ReportsCache),
		"format":             option.Checked(option.Word(&u.Format), u.Validate),
		"cache_ttl":          option.Checked(option.Duration(&u.CacheTTL), u.Validate),
		"cache_write":        option.Checked(option.Fraction(&u.CacheWrite), u.Validate),
		"cache_read":         option.Checked(option.Fraction(&u.CacheRead), u.Validate),
		"cache_min_tokens":   option.Checked(option.Number(&u.CacheMinTokens), u.Validate),
		"context_window":     option.Checked(option.Number(&u.ContextWindow), u.Validate),
		"key":                option.Checked(option.Word(&u.Key), u.Validate),
		"region":             region(&u.SignerRaw),
		"agents":             u.agents,
	})
}

func modelName(to *[]ModelName) option.Option {
	return func(d *caddyfile.Dispenser) error {
		var m ModelName
		if !d.AllArgs(&m.From, &m.To) {
			return d.Err("model: two names are expected, the client's and the upstream's: model claude-* qwen3")
		}
		for _, before := range *to {
			if before.From == m.From {
				return d.Errf("duplicate model %q", m.From)
			}
		}
		*to = append(*to, m)
		return nil
	}
}

// member parses a member added to each request, JSON or a placeholder for JSON.
func member(to *map[string]json.RawMessage) option.Option {
	return func(d *caddyfile.Dispenser) error {
		var name, value string
		if !d.AllArgs(&name, &value) {
			return d.ArgErr()
		}
		if _, ok := (*to)[name]; ok {
			return d.Errf("duplicate body %q", name)
		}
		raw := json.RawMessage(value)
		// A bare placeholder needs no quotes in the Caddyfile.
		if !json.Valid(raw) && strings.HasPrefix(value, "{") && strings.HasSuffix(value, "}") &&
			!strings.ContainsAny(value, `"\\ `) {
			raw = json.RawMessage(`"` + value + `"`)
		}
		if !json.Valid(raw) {
			return d.Errf("body: %s: %q is not JSON", name, value)
		}
		if *to == nil {
			*to = map[string]json.RawMessage{}
		}
		(*to)[name] = raw
		return nil
	}
}

// region parses the region of Amazon Bedrock to sign requests for:
//
//	region <region> [<host>]
func region(to *json.RawMessage) option.Option {
	return func(d *caddyfile.Dispenser) error {
		signer := struct {
			Provider string `json:"provider"`
			Region   string `json:"region"`
			Host     string `json:"host,omitempty"`
		}{Provider: "aws"}
		if !d.Args(&signer.Region) {
			return d.ArgErr()
		}
		d.Args(&signer.Host)
		if d.NextArg() {
			return d.ArgErr()
		}
		var err error
		*to, err = json.Marshal(signer)
		return err
	}
}
