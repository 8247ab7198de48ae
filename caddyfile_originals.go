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
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/option"
)

// parseOriginals parses where folded texts are kept. Syntax:
//
//	originals memory|disk {
//		folder   <folder>
//		key      <key or placeholder>
//		key_file <file>
//		max_size <size>
//		ttl      <duration>
//	}
//
// The options are those of disk. What each means and its default stand at the
// fields of handler.Originals.
func parseOriginals(a *app.App) option.Option {
	return func(d *caddyfile.Dispenser) error {
		if a.Originals != nil {
			return d.Err("duplicate option \"originals\"")
		}
		var where string
		if !d.AllArgs(&where) {
			return d.ArgErr()
		}
		o := new(app.Originals)
		switch where {
		case "memory":
			return option.Block(d, "originals memory", nil)
		case "disk":
			a.Originals = o
		default:
			return d.Errf("originals: %q is neither memory nor disk", where)
		}
		return option.Block(d, "originals disk", option.Options{
			"folder":   option.Word(&o.Folder),
			"key":      option.Checked(option.Word(&o.Key), o.Validate),
			"key_file": option.Checked(option.Word(&o.KeyFile), o.Validate),
			"max_size": option.Checked(option.Size(&o.MaxSize), o.Validate),
			"ttl":      option.Checked(option.Duration(&o.TTL), o.Validate),
		})
	}
}
