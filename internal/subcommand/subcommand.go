// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package subcommand runs the subcommands of `caddy llm-cache`.
package subcommand

import (
	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// Run makes a function what cobra runs. Its error becomes a line that begins with "Error:", and the
// exit status 1. Caddy's own wrapper logs errors, as JSON where there is no terminal.
func Run(f func(cmd *cobra.Command, flags caddycmd.Flags) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error { return f(cmd, caddycmd.Flags{FlagSet: cmd.Flags()}) }
}
