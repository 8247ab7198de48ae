// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/subcommand"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

func explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [flags] <trace>...",
		Short: "Tells request by request what the handler does to one recorded conversation",
		Long: `
Sends one recorded conversation through the llm_cache handler to a simulated
provider, as replay does, and tells for each request what the client's own
bytes and what was sent in their place were billed, whether history was edited
and why or why not, what was folded, what is saved so far, and which edits of
files quote text that the upstream was not shown. At the end it tells what each
edit of history earned.

Several traces may be given if they are parts of one conversation. Sizes are in
tokens, gains and savings in units of one uncached input token. "pause" is the
time since the request before. Where two figures differ, the client's own comes
first: 12.0k→3.0k.

With --svg the conversation is drawn too.
`,
		Example: "  caddy llm-cache explain --svg conversation.svg traces/a.jsonl",
		Args:    cobra.MinimumNArgs(1),
		RunE:    subcommand.Run(explainMain),
	}
	cmd.Flags().String("profile", pricing.Profiles()[0], "Simulated provider: "+strings.Join(pricing.Profiles(), ", "))
	cmd.Flags().String("policy", string(pipeline.CostAware), "Policy: off, observe, eager, cost_aware")
	cmd.Flags().String("options", "", "Further options of the handler, as JSON")
	pricesFlag(cmd)
	cmd.Flags().String("svg", "", "File to draw the conversation to")
	cmd.Flags().Bool("json", false, "Print the timeline as JSON")
	return cmd
}

func explainMain(cmd *cobra.Command, f caddycmd.Flags) error {
	o, err := options(f)
	if err != nil {
		return err
	}
	if len(o.Profiles) != 1 || len(o.Policies) != 1 {
		return fmt.Errorf("explain: takes one profile and one policy")
	}
	conversations, err := recording.Find(f.Args()...)
	if err != nil {
		return err
	}
	if len(conversations) != 1 {
		return fmt.Errorf("explain: takes one conversation, not %d", len(conversations))
	}
	line := &progressLine{w: cmd.ErrOrStderr(), what: "replayed %d of %d requests"}
	o.Progress = line.show
	t, err := trial.Explain(cmd.Context(), conversations[0], o)
	line.clear()
	if err != nil {
		return err
	}
	if path := f.String("svg"); path != "" {
		if err := save(path, t.Draw); err != nil {
			return err
		}
	}
	write := t.WriteText
	if f.Bool("json") {
		write = t.WriteJSON
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return err
	}
	return nil
}

func save(path string, draw func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("drawing: %w", err)
	}
	if err := draw(f); err != nil {
		_ = f.Close()
		return fmt.Errorf("drawing %s: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("drawing %s: %w", path, err)
	}
	return nil
}
