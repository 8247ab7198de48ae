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
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
)

// modelName parses an entry of the models that go by another name:
//
//	model <name> <name of the upstream>
func modelName(to *[]handler.ModelName) option {
	return func(d *caddyfile.Dispenser) error {
		var m handler.ModelName
		if !d.AllArgs(&m.From, &m.To) {
			return d.ArgErr()
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

// names parses a list of members, which may be empty:
//
//	drop [<members...>]
func names(to *[]string) option {
	return func(d *caddyfile.Dispenser) error {
		*to = append([]string{}, d.RemainingArgs()...)
		return nil
	}
}

// member parses a member that each request gets, JSON or a placeholder for it:
//
//	body <member> <json>
func member(to *map[string]json.RawMessage) option {
	return func(d *caddyfile.Dispenser) error {
		var name, value string
		if !d.AllArgs(&name, &value) {
			return d.ArgErr()
		}
		if _, ok := (*to)[name]; ok {
			return d.Errf("duplicate body %q", name)
		}
		raw := json.RawMessage(value)
		if !json.Valid(raw) && strings.HasPrefix(value, "{") && strings.HasSuffix(value, "}") && !strings.ContainsAny(value, `"\\ `) {
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
