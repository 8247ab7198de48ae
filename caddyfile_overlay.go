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
	"github.com/caddy-llm-cache/caddy-llm-cache/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/overlay"
)

// parseOverlay parses how the front of a box's prompts is kept as it is. Syntax:
//
//	overlay [auto|on|off] {
//		group           <name>
//		billing_line    on|off
//		system_messages on|off
//		token_counters  on|off
//		tool_order      on|off
//		late_tools      on|off
//		pins            on|off
//		forms           on|off
//		exact_answers   on|off
//		thinking        on|off
//	}
func parseOverlay(h *handler.Handler) option.Option {
	return func(d *caddyfile.Dispenser) error {
		o := new(overlay.Rules)
		h.Overlay = o
		if d.NextArg() {
			o.Mode = overlay.Mode(d.Val())
		}
		if d.NextArg() {
			return d.ArgErr()
		}
		if err := o.Validate(); err != nil {
			return d.Errf("overlay: %v", err)
		}
		return option.Block(d, "overlay", option.Options{
			"group":           option.Word(&o.Group),
			"billing_line":    option.OnOff(&o.BillingLine),
			"system_messages": option.OnOff(&o.SystemMessages),
			"token_counters":  option.OnOff(&o.TokenCounters),
			"tool_order":      option.OnOff(&o.ToolOrder),
			"late_tools":      option.OnOff(&o.LateTools),
			"pins":            option.OnOff(&o.Pins),
			"forms":           option.OnOff(&o.Forms),
			"exact_answers":   option.OnOff(&o.ExactAnswers),
			"thinking":        option.OnOff(&o.Thinking),
		})
	}
}
