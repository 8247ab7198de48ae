// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/subcommand"
)

// DoctorCommand returns the subcommand `doctor` of `caddy llm-cache`.
func DoctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor [--config <Caddyfile>] [--offline] [--json]",
		Short: "Looks for what keeps llm_cache from working",
		Long: `
Examines a configuration (where llm_cache stands and what is behind it, timeouts
and sizes, the audit store), the upstreams and the base URLs of the clients
(whether they answer, certificates, keys, the clock), and the settings of Claude
Code, Codex, opencode and Gemini CLI in the environment and in the home folder:
whether any of them goes through a site. It ends with a verdict on each client:

	Claude Code → https://llm.example.com → api.anthropic.com: through llm_cache,
	38 requests today, 96 % read from cache

Upstreams are asked for their models without a credential, base URLs with the one
that the client itself would send; another machine also gets an empty request, whose
refusal tells whether llm_cache is there. No model is asked, and nothing is changed.

The command fails if it finds anything. Lines that begin with a dot are notes, of
what may be meant so.
`,
		Example: "  caddy llm-cache doctor --config /etc/caddy/Caddyfile",
		Args:    cobra.NoArgs,
		RunE:    subcommand.Run(run),
	}
	cmd.Flags().String("config", "", "Caddyfile, or configuration in JSON (./Caddyfile, if there is one)")
	cmd.Flags().Bool("offline", false, "Leave out what takes connections")
	cmd.Flags().Bool("json", false, "Print what was found as JSON")
	return cmd
}

func run(cmd *cobra.Command, f caddycmd.Flags) error {
	p := Patient{Getenv: os.Getenv, Offline: f.Bool("offline"), Managed: managedSettings()}
	var err error
	if p.Home, err = os.UserHomeDir(); err != nil {
		return err
	}
	if p.Dir, err = os.Getwd(); err != nil {
		return err
	}
	path := f.String("config")
	if path == "" {
		if _, err := os.Stat("Caddyfile"); err == nil {
			path = "Caddyfile"
		}
	}
	if path != "" {
		if err := p.LoadConfig(path); err != nil {
			return err
		}
	}
	x := Examine(cmd.Context(), p)
	if f.Bool("json") {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		err = e.Encode(x)
	} else {
		err = x.Write(cmd.OutOrStdout())
	}
	if n := x.Faults(); err == nil && n > 0 {
		err = fmt.Errorf("doctor: %d found", n)
	}
	return err
}
