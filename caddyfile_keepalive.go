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

// parseKeepAlive parses the option of the handler that keeps the caches of idle
// conversations alive. Syntax:
//
//	keepalive {
//		every <duration>
//		most  <pings>
//		floor <tokens>
//		stake <share>
//		tier  report|switch
//		log   on|off
//	}
//
// What each means and its default stand at the fields of handler.KeepAlive.
func parseKeepAlive(h *handler.Handler) option {
	return func(d *caddyfile.Dispenser) error {
		if d.NextArg() {
			return d.ArgErr()
		}
		k := new(handler.KeepAlive)
		h.KeepAlive = k
		return parseBlock(d, "keepalive", options{
			"every": checked(duration(&k.Every), k.Validate),
			"most":  checked(number(&k.Most), k.Validate),
			"floor": checked(number(&k.Floor), k.Validate),
			"stake": checked(fraction(&k.Stake), k.Validate),
			"tier":  checked(word(&k.Tier), k.Validate),
			"log":   onOff(&k.Log),
		})
	}
}

// parseKeepAliveLimits parses the option of the app that bounds the pings of all
// sites together. Syntax:
//
//	keepalive {
//		hourly        <dollars>
//		tenant_hourly <dollars>
//		in_flight     <pings>
//		memory        <size>
//	}
//
// What each means and its default stand at the fields of
// handler.KeepAliveLimits.
func parseKeepAliveLimits(app *handler.App) option {
	return func(d *caddyfile.Dispenser) error {
		if app.KeepAlive != nil {
			return d.Err("duplicate option \"keepalive\"")
		}
		if d.NextArg() {
			return d.ArgErr()
		}
		l := new(handler.KeepAliveLimits)
		app.KeepAlive = l
		return parseBlock(d, "keepalive", options{
			"hourly":        checked(above(fraction, &l.Hourly), l.Validate),
			"tenant_hourly": checked(above(fraction, &l.TenantHourly), l.Validate),
			"in_flight":     checked(above(number, &l.InFlight), l.Validate),
			"memory":        size(&l.Memory),
		})
	}
}

// above parses a number that must be above zero, which means absent in JSON.
func above[T int | float64](parse func(**T) option, to *T) option {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		var value *T
		if err := parse(&value)(d); err != nil {
			return err
		}
		if *value == 0 {
			return d.Errf("%s: 0 is not above zero", name)
		}
		*to = *value
		return nil
	}
}
