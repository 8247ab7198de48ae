// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package option

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Module parses the options of the module named by the current token. It returns them as JSON, with
// the name under key.
func Module(d *caddyfile.Dispenser, namespace, key string) (json.RawMessage, error) {
	name := d.Val()
	m, err := caddyfile.UnmarshalModule(d, namespace+"."+name)
	if err != nil {
		return nil, Missing(err)
	}
	return caddyconfig.JSONModuleObject(m, key, name, nil), nil
}

// apart are modules that must be imported separately, because their dependencies have several megabytes.
var apart = map[string]string{
	"llm_cache.stores.valkey": "sessioncache/valkey",
	"llm_cache.signers.aws":   "extend/aws",
}

// Missing wraps the error of loading a module. For a module that must be imported separately, the
// error names the import.
func Missing(err error) error {
	for id, folder := range apart {
		if _, absent := caddy.GetModule(id); absent != nil && strings.Contains(err.Error(), id) {
			return fmt.Errorf("%s is not in this build of Caddy: add it by xcaddy build … --with "+
				"github.com/caddy-llm-cache/caddy-llm-cache/%s: %w", id, folder, err)
		}
	}
	return err
}
