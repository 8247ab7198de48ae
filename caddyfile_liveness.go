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
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
)

// parseLiveness parses when silent streams get a sign of life. Syntax:
//
//	liveness [on|off] {
//		every <duration>
//		open  <duration>
//	}
func parseLiveness(h *handler.Handler) option {
	return func(d *caddyfile.Dispenser) error {
		l := new(handler.Liveness)
		h.Liveness = l
		if d.NextArg() {
			off := d.Val() == "off"
			if !off && d.Val() != "on" {
				return d.Errf("liveness: %q is not on or off", d.Val())
			}
			l.Off = &off
		}
		if d.NextArg() {
			return d.ArgErr()
		}
		return parseBlock(d, "liveness", options{
			"every": checked(duration(&l.Every), l.Validate),
			"open":  checked(duration(&l.Open), l.Validate),
		})
	}
}

// parseLinger parses how long work goes on without its client:
//
//	linger <duration>|off
func parseLinger(h *handler.Handler) option {
	return func(d *caddyfile.Dispenser) error {
		h.Linger = new(caddy.Duration)
		if d.CountRemainingArgs() == 1 && d.NextArg() && d.Val() == "off" {
			return nil
		}
		d.Prev()
		return duration(h.Linger)(d)
	}
}
