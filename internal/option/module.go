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

// Module parses the options of the module named by the current token, and returns them
// with the name under key.
func Module(d *caddyfile.Dispenser, namespace, key string) (json.RawMessage, error) {
	name := d.Val()
	m, err := caddyfile.UnmarshalModule(d, namespace+"."+name)
	if err != nil {
		return nil, Missing(err)
	}
	return caddyconfig.JSONModuleObject(m, key, name, nil), nil
}

// apart are modules that are linked only where their packages are imported: their
// dependencies weigh several megabytes.
var apart = map[string]string{
	"llm_cache.stores.valkey": "sessioncache/valkey",
	"llm_cache.signers.aws":   "extend/aws",
}

// Missing returns the error of loading a module. Where the module is one that has to be
// built in by an import of its own, the error names the import.
func Missing(err error) error {
	for id, folder := range apart {
		if _, absent := caddy.GetModule(id); absent != nil && strings.Contains(err.Error(), id) {
			return fmt.Errorf("%s is not in this build of Caddy: add it by xcaddy build … --with github.com/caddy-llm-cache/caddy-llm-cache/%s: %w", id, folder, err)
		}
	}
	return err
}
