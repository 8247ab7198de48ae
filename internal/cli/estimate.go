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

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/transcript"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/estimate"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/subcommand"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// drawnRequests is the default of simulated requests: about nine seconds on two cores.
const drawnRequests = 5000

func estimateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "estimate [flags] [<path>...]",
		Short: "Tells from what your agents have on disk what would have been saved",
		Long: `
Reads the conversations that ` + strings.Join(transcript.Agents(), ", ") + ` have
left on this machine, sends them through the llm_cache handler to a simulated
provider, and tells by project what would have been saved. Nothing leaves the
machine, nothing is written, and nothing needs to be installed or running.

Paths are transcripts or folders of them; by default the folders in which the
agents keep them.

What was paid is what the transcripts say was billed for prompts, at list prices;
answers cost the same with and without the handler. What would have been saved is
measured on conversations drawn by a hash of their ids, --requests of them at
most, and applied to the rest in proportion.

The command fails if there is no conversation.
`,
		Example: "  caddy llm-cache estimate" + "\n" +
			"  caddy llm-cache estimate --requests 0 --json ~/.claude/projects",
		RunE: subcommand.Run(estimateMain),
	}
	cmd.Flags().String("policy", string(pipeline.CostAware), "Policy: observe, eager, cost_aware")
	cmd.Flags().String("options", "", "Further options of the handler, as JSON")
	pricesFlag(cmd)
	cmd.Flags().Int("requests", drawnRequests, "How many requests to simulate at most, 0 for all")
	cmd.Flags().Bool("json", false, "Print the estimate as JSON")
	return cmd
}

func sources(paths []string) ([]transcript.Source, error) {
	if len(paths) > 0 {
		found, err := transcript.Scan(paths...)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("no conversation of %s in %s", strings.Join(transcript.Agents(), ", "), strings.Join(paths, ", "))
		}
		return found, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	found, err := transcript.Discover(home, os.Getenv)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no conversation of %s in %s; name the folder that holds them",
			strings.Join(transcript.Agents(), ", "), home)
	}
	return found, err
}

func estimateMain(cmd *cobra.Command, f caddycmd.Flags) error {
	o := estimate.Options{Requests: f.Int("requests")}
	switch policy := pipeline.Policy(f.String("policy")); policy {
	case pipeline.Observe, pipeline.Eager, pipeline.CostAware:
		o.Policies = []pipeline.Policy{policy}
	default:
		return fmt.Errorf("policy must be one of observe, eager, cost_aware, got %q", policy)
	}
	if s := f.String("options"); s != "" {
		if !json.Valid([]byte(s)) {
			return fmt.Errorf("options: not valid JSON")
		}
		o.Handler = []byte(s)
	}
	var err error
	if o.Prices, err = prices(f); err != nil {
		return err
	}
	found, err := sources(f.Args())
	if err != nil {
		return err
	}
	reading := &progressLine{w: cmd.ErrOrStderr(), what: "read %d of %d transcripts"}
	simulating := &progressLine{w: cmd.ErrOrStderr(), what: "simulated %d of %d requests"}
	o.Reading = func(done, total int) {
		if reading.show(done, total); done == total {
			reading.clear()
		}
	}
	o.Progress = simulating.show
	e, err := o.Run(cmd.Context(), found)
	simulating.clear()
	if err != nil {
		return err
	}
	if e.Total.Conversations == 0 {
		return fmt.Errorf("no conversation with an answered request in %d transcripts", len(found))
	}
	if f.Bool("json") {
		return e.WriteJSON(cmd.OutOrStdout())
	}
	return e.WriteText(cmd.OutOrStdout())
}
