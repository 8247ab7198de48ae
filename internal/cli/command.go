// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command `caddy llm-cache` with its subcommands.
package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/report"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/compressor"
)

// Root returns the command `caddy llm-cache` with its subcommands, to be
// registered with Caddy.
func Root() caddycmd.Command {
	return caddycmd.Command{
		Name:  "llm-cache",
		Usage: "<command> [<flags>] [<path>...]",
		Short: "Tools around the llm_cache handler",
		CobraFunc: func(cmd *cobra.Command) {
			for _, g := range groups() {
				cmd.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
				for _, c := range g.commands {
					c.GroupID = g.title
					cmd.AddCommand(c)
				}
			}
			cmd.RunE = whichCommand
		},
	}
}

type group struct {
	title    string
	commands []*cobra.Command
}

// groups returns the subcommands in the order of the help.
func groups() []group {
	return []group{
		{"Try it", []*cobra.Command{DemoCommand(), estimateCommand(), WrapCommand()}},
		{"Run it", []*cobra.Command{
			DoctorCommand(), SmoketestCommand(), DashboardCommand(), StatuslineCommand(), report.Command(), UserCommand(),
			pricesCommand(), versionCommand(),
		}},
		{"Study it", []*cobra.Command{replayCommand(), explainCommand(), importCommand(), compressor.Command()}},
	}
}

// whichCommand refuses unknown subcommands, and shows the help without one.
func whichCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	names := make([]string, len(cmd.Commands()))
	for i, c := range cmd.Commands() {
		names[i] = c.Name()
	}
	return fmt.Errorf("%s: subcommand must be one of %s, got %q", cmd.Name(), strings.Join(names, ", "), args[0])
}
