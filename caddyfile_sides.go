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
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
	"github.com/caddy-llm-cache/caddy-llm-cache/option"
)

// parseSideRequests reads where side requests go, with all options of
// reverse_proxy. Syntax:
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
