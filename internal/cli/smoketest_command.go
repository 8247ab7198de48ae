// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/subcommand"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// SmoketestCommand returns the subcommand `smoketest` of `caddy llm-cache`.
func SmoketestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "smoketest --url <base URL> --model <model> [--format <format>]",
		Short: "Asks a model a few questions through a site and checks the answers",
		Long: `
Asks a model five short questions through a site: with a system prompt, once more
in the same conversation, as a stream, without a system prompt, and with another
one. It checks that each is answered, that the system prompt is honoured, that a
stream ends as it should, that a conversation is one session, and, where the site
says that its upstream holds conversations, that it sends what is new only.

What is not given as a flag is read from the environment: LLM_CACHE_URL,
LLM_CACHE_MODEL, LLM_CACHE_FORMAT and LLM_CACHE_KEY. A key is read from there
alone, so that it does not stand in the list of processes.

The command fails if anything is wrong.
`,
		Example: "  LLM_CACHE_KEY=$ANTHROPIC_API_KEY caddy llm-cache smoketest --url https://llm.example.com --model claude-haiku-4-5",
		Args:    cobra.NoArgs,
		RunE:    subcommand.Run(runSmoketest),
	}
	cmd.Flags().String("url", "", "Base URL of the site")
	cmd.Flags().String("model", "", "Model")
	cmd.Flags().String("format", "", "API to speak: "+strings.Join(SmoketestFormats(), ", ")+" (openai_chat)")
	cmd.Flags().Bool("json", false, "Print the lines as JSON")
	return cmd
}

func runSmoketest(cmd *cobra.Command, f caddycmd.Flags) error {
	value := func(flag, otherwise string) string {
		if v := f.String(flag); v != "" {
			return v
		}
		if v := os.Getenv("LLM_CACHE_" + strings.ToUpper(flag)); v != "" {
			return v
		}
		return otherwise
	}
	o := &SmoketestOptions{
		URL: value("url", ""), Model: value("model", ""), Format: wire.Format(value("format", string(wire.OpenAIChat))),
		Key: os.Getenv("LLM_CACHE_KEY"),
	}
	lines, err := o.Run(cmd.Context())
	if err != nil {
		return fmt.Errorf("smoketest: %w", err)
	}
	if f.Bool("json") {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		err = e.Encode(lines)
	} else {
		err = WriteSmoketest(cmd.OutOrStdout(), lines)
	}
	if n := SmoketestFaults(lines); err == nil && n > 0 {
		err = fmt.Errorf("smoketest: %d of %d failed", n, len(lines))
	}
	return err
}
