package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/dgraph-io/ristretto/v2"
	_ "github.com/tidwall/gjson"
)

func main() {
	caddycmd.Main()
}
