// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Command caddy is Caddy with its standard modules, llm_cache, and a simulated model for trying it out.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-llm-cache/caddy-llm-cache"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/extend/aws"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/valkey"
)

func main() {
	caddycmd.Main()
}
