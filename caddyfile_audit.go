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

	"github.com/caddy-llm-cache/caddy-llm-cache/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/option"
)

// parseAudit parses the option of the app that keeps a record of every turn.
// Syntax, one of:
//
//	audit [sqlite [<path>]] {
//		path      <path>
//		retention <duration>|forever
//		content   on|off
//		batch     <records>
//		interval  <duration>
//	}
//	audit postgres [<dsn>] {
//		dsn       <connection string or URL>
//		retention <duration>|forever
//		content   on|off
//		batch     <records>
//		interval  <duration>
//	}
//	audit jsonl {
//		output    <writer> ...
//		content   on|off
//		batch     <records>
//		interval  <duration>
//	}
//
// What each option means and its default stand at the fields of
// handler.AuditSQLite, handler.AuditPostgres and handler.AuditJSONL.
func parseAudit(a *app.App) option.Option {
	return func(d *caddyfile.Dispenser) error {
		if a.AuditRaw != nil {
			return d.Err("duplicate option \"audit\"")
		}
		name := "sqlite"
		if d.NextArg() {
			name = d.Val()
		}
		store, err := caddyfile.UnmarshalModule(d, "llm_cache.audit."+name)
		if err != nil {
			return err
		}
		a.AuditRaw = caddyconfig.JSONModuleObject(store, "module", name, nil)
		return nil
	}
}
