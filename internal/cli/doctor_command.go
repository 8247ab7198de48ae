// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2/caddyconfig"
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
whether any of them goes through a site.

Upstreams are asked without a credential, base URLs with the one that the client
itself would send. No model is asked, and nothing is changed.

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
	p := Patient{Getenv: os.Getenv, Offline: f.Bool("offline")}
	var err error
	if p.Home, err = os.UserHomeDir(); err != nil {
		return err
	}
	path := f.String("config")
	if path == "" {
		if _, err := os.Stat("Caddyfile"); err == nil {
			path = "Caddyfile"
		}
	}
	if path != "" {
		if p.Config, err = LoadConfig(path); err != nil {
			return err
		}
	}
	looked, findings := Examine(cmd.Context(), p)
	if f.Bool("json") {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		err = e.Encode(struct {
			Looked   []string  `json:"looked"`
			Findings []Finding `json:"findings"`
		}{looked, findings})
	} else {
		err = WriteFindings(cmd.OutOrStdout(), looked, findings)
	}
	if n := faults(findings); err == nil && n > 0 {
		err = fmt.Errorf("doctor: %d found", n)
	}
	return err
}

// LoadConfig reads a configuration and converts it to JSON.
func LoadConfig(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("doctor: %w", err)
	}
	if strings.EqualFold(filepath.Ext(path), ".json") {
		if !json.Valid(raw) {
			return nil, fmt.Errorf("doctor: %s is no valid JSON", path)
		}
		return raw, nil
	}
	adapter := caddyconfig.GetAdapter("caddyfile")
	if adapter == nil {
		return nil, fmt.Errorf("doctor: this Caddy reads no Caddyfiles")
	}
	adapted, _, err := adapter.Adapt(raw, map[string]any{"filename": path})
	if err != nil {
		return nil, fmt.Errorf("doctor: %w", err)
	}
	return adapted, nil
}
