// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package subcommand runs the subcommands of `caddy llm-cache`.
package subcommand

import (
	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// Run makes a function what cobra runs. Caddy logs its error, and the exit status is 1 then.
func Run(f func(cmd *cobra.Command, flags caddycmd.Flags) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return caddycmd.WrapCommandFuncForCobra(func(flags caddycmd.Flags) (int, error) {
			if err := f(cmd, flags); err != nil {
				return caddy.ExitCodeFailedStartup, err
			}
			return caddy.ExitCodeSuccess, nil
		})(cmd, args)
	}
}
