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

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
)

// parseQueue parses the bounds of what the upstream works on at a time. Syntax:
//
//	queue [<name>] {
//		slots    <requests>
//		waiting  <requests>
//		patience <duration>
//	}
func parseQueue(h *handler.Handler) option {
	return func(d *caddyfile.Dispenser) error {
		q := new(handler.Queue)
		h.Queue = q
		if d.NextArg() {
			q.Name = d.Val()
		}
		if d.NextArg() {
			return d.ArgErr()
		}
		return parseBlock(d, "queue", options{
			"slots":    checked(count(&q.Slots), q.Validate),
			"waiting":  checked(number(&q.Waiting), q.Validate),
			"patience": checked(duration(&q.Patience), q.Validate),
		})
	}
}

// count parses a number of things of which there is at least one.
func count(to *int) option {
	return func(d *caddyfile.Dispenser) error {
		var n *int
		name := d.Val()
		if err := number(&n)(d); err != nil {
			return err
		}
		if *n < 1 {
			return d.Errf("%s: %d is below 1", name, *n)
		}
		*to = *n
		return nil
	}
}
