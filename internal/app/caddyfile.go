// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
)

// UnmarshalCaddyfile sets the app up from the global options. Earlier options stay. Syntax:
//
//	{
//		llm_cache {
//			store <module> {
//				<options of the store>
//			}
//			keepalive {
//				<bounds of all pings>
//			}
//			audit [<module>] {
//				<options of the audit store>
//			}
//			originals memory|disk {
//				<options of the files>
//			}
//			memory     <size>
//			user       <name>|<placeholder>|* [<key>|sha256:<hash>|<digits>] {
//				<options of the user>
//			}
//			group      <name>|* {
//				<options of the group>
//			}
//			project    <name>|* {
//				<budgets>
//			}
//			site {
//				<budgets>
//			}
//			users      require
//			users_file <file>
//			prices     <file>
//			prices_from <url> [every <duration>] key <base64>|sha256 <digits>
//			unknown_models charge|refuse
//			budget     <user>|* <budget>
//		}
//	}
//
// The default store; the others stand at [DiskStore] and in package
// sessioncache/valkey:
//
//	store memory {
//		idle_ttl <duration>
//	}
//
// The audit stores stand at [AuditSQLite], [AuditPostgres] and [AuditJSONL], the bounds of pings at keepalive/pinger,
// the files of folded texts at parseOriginals, the options of users, groups, projects and the site at parseUser
// and the functions after it.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	if d.NextArg() {
		return d.ArgErr()
	}
	return option.Block(d, "llm_cache", option.Options{
		"store": func(d *caddyfile.Dispenser) error {
			if a.StoreRaw != nil {
				return d.Err("duplicate option \"store\"")
			}
			if !d.NextArg() {
				return d.ArgErr()
			}
			var err error
			a.StoreRaw, err = option.Module(d, "llm_cache.stores", "module")
			return err
		},
		"audit":       a.parseAudit,
		"keepalive":   a.parseKeepAlive,
		"originals":   a.parseOriginals,
		"user":        func(d *caddyfile.Dispenser) error { return parseUser(d, &a.Users) },
		"group":       func(d *caddyfile.Dispenser) error { return parseGroup(d, &a.Groups) },
		"project":     a.parseProject,
		"site":        option.Once(func() bool { return a.Site != nil }, a.parseSite),
		"budget":      a.parseBudgetOf,
		"users":       option.Once(func() bool { return a.RequireUsers }, a.parseUsers),
		"users_file":  option.Once(func() bool { return a.UsersFile != "" }, option.Word(&a.UsersFile)),
		"prices":      option.Once(func() bool { return a.PricesFile != "" }, option.Word(&a.PricesFile)),
		"prices_from": a.parsePricesFrom,
		"unknown_models": option.Once(func() bool { return a.UnknownModels != "" },
			option.Checked(option.Word(&a.UnknownModels), a.Validate)),
		"memory": option.Once(func() bool { return a.Memory != 0 }, option.Checked(option.Size(&a.Memory), a.Validate)),
	})
}

func (a *App) parseKeepAlive(d *caddyfile.Dispenser) error {
	if a.KeepAliveRaw != nil {
		return d.Err("duplicate option \"keepalive\"")
	}
	section, err := caddyfile.UnmarshalModule(d, "llm_cache.keepalive")
	if err != nil {
		return err
	}
	a.KeepAliveRaw = caddyconfig.JSON(section, nil)
	return nil
}

// parseAudit parses the option audit. The syntax of each store stands at its UnmarshalCaddyfile.
func (a *App) parseAudit(d *caddyfile.Dispenser) error {
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
// fields of [Originals].
func (a *App) parseOriginals(d *caddyfile.Dispenser) error {
	if a.Originals != nil {
		return d.Err("duplicate option \"originals\"")
	}
	var where string
	if !d.AllArgs(&where) {
		return d.ArgErr()
	}
	o := new(Originals)
	switch where {
	case "memory":
		return option.Block(d, "originals memory", nil)
	case "disk":
		a.Originals = o
	default:
		return d.Errf("originals must be memory or disk, got %q", where)
	}
	return option.Block(d, "originals disk", option.Options{
		"folder":   option.Word(&o.Folder),
		"key":      option.Checked(option.Word(&o.Key), o.Validate),
		"key_file": option.Checked(option.Word(&o.KeyFile), o.Validate),
		"max_size": option.Checked(option.Size(&o.MaxSize), o.Validate),
		"ttl":      option.Checked(option.Duration(&o.TTL), o.Validate),
	})
}
