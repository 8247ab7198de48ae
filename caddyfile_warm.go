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
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
)

// parseWarm parses what a box is to read before anybody waits. Syntax:
//
//	warm {
//		bases  <count>
//		store  <folder>
//		loaded [<days>] <from>-<to>
//		every  <duration>
//	}
//
// What each means and its default stand at the fields of handler.Warm.
func parseWarm(h *handler.Handler) option {
	return func(d *caddyfile.Dispenser) error {
		if d.NextArg() {
			return d.ArgErr()
		}
		w := new(handler.Warm)
		h.Warm = w
		if err := parseBlock(d, "warm", options{
			"bases":  count(&w.Bases),
			"store":  word(&w.Store),
			"loaded": hoursOf(w),
			"every":  duration(&w.Every),
		}); err != nil {
			return err
		}
		if err := w.Validate(); err != nil {
			return d.WrapErr(err)
		}
		return nil
	}
}

// hoursOf parses when a model is to stay loaded.
func hoursOf(w *handler.Warm) option {
	return func(d *caddyfile.Dispenser) error {
		args := d.RemainingArgs()
		if len(args) == 0 || len(args) > 2 {
			return d.ArgErr()
		}
		w.Loaded = strings.Join(args, " ")
		probe := handler.Warm{Loaded: w.Loaded}
		if err := probe.Validate(); err != nil {
			return d.WrapErr(err)
		}
		return nil
	}
}

// parseIdleFolding parses the option that folds while nobody waits. Syntax:
//
//	idle_folding {
//		after       <duration>
//		call_tokens <tokens>
//	}
//
// What each means and its default stand at the fields of handler.IdleFolding.
func parseIdleFolding(h *handler.Handler) option {
	return func(d *caddyfile.Dispenser) error {
		if d.NextArg() {
			return d.ArgErr()
		}
		f := new(handler.IdleFolding)
		h.IdleFolding = f
		return parseBlock(d, "idle_folding", options{
			"after":       checked(duration(&f.After), f.Validate),
			"call_tokens": checked(number(&f.CallTokens), f.Validate),
		})
	}
}
