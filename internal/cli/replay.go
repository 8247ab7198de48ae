// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/subcommand"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

func replayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay [flags] <path>...",
		Short: "Sends recorded conversations through the handler and tells what it saves",
		Long: `
Sends recorded conversations through the llm_cache handler to a simulated
provider, on a virtual clock, and compares with what the client's own bytes
would have cost: tokens and cost by conversation, requests that the provider
would refuse, and edits of files that quote text which the upstream was not
shown.

Paths are traces (.jsonl or .jsonl.gz), what agents leave on disk (see estimate),
or folders of either. Several profiles
and policies may be given, separated by commas, or "all"; a summary of all of
them is printed at the end. The command fails if a request is refused, if the
handler gives up on one, or if the policies off or observe change one.

With --keepalive caches are kept alive in pauses, as the handler's options say.
What the pings cost is part of the cost, but for those after the last request of
a conversation: what the person did then is not recorded. They are told apart,
as what is lost if nobody came back.
`,
		Example: "  caddy llm-cache import --out traces" + "\n" +
			"  caddy llm-cache replay --profile anthropic-5m --policy observe,cost_aware traces",
		Args: cobra.MinimumNArgs(1),
		RunE: subcommand.Run(replayMain),
	}
	cmd.Flags().String("profile", pricing.Profiles()[0], "Simulated providers: "+strings.Join(pricing.Profiles(), ", "))
	cmd.Flags().String("policy", string(pipeline.CostAware), "Policies: off, observe, eager, cost_aware")
	cmd.Flags().String("options", "", "Further options of the handler, as JSON")
	pricesFlag(cmd)
	cmd.Flags().Bool("keepalive", false, "Keep caches alive in pauses")
	cmd.Flags().Bool("json", false, "Print the report as JSON")
	return cmd
}

func replayMain(cmd *cobra.Command, f caddycmd.Flags) error {
	o, err := options(f)
	if err != nil {
		return err
	}
	conversations, err := recording.Find(f.Args()...)
	if err != nil {
		return err
	}
	line := &progressLine{w: cmd.ErrOrStderr(), what: "replayed %d of %d requests"}
	o.Progress, o.KeepAlive = line.show, f.Bool("keepalive")
	report, err := trial.Run(cmd.Context(), conversations, o)
	line.clear()
	if err != nil {
		return err
	}
	write := report.WriteText
	if f.Bool("json") {
		write = report.WriteJSON
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return err
	}
	if v := report.Violations(); len(v) > 0 {
		return fmt.Errorf("%d results against the rules, the first: %s", len(v), v[0])
	}
	return nil
}

func options(f caddycmd.Flags) (trial.Options, error) {
	o := trial.Options{Profiles: list(f.String("profile"), pricing.Profiles())}
	names := make([]string, len(trial.Policies))
	for i, p := range trial.Policies {
		names[i] = string(p)
	}
	for _, name := range list(f.String("policy"), names) {
		if !slices.Contains(names, name) {
			return o, fmt.Errorf("policy must be one of %s, got %q", strings.Join(names, ", "), name)
		}
		o.Policies = append(o.Policies, pipeline.Policy(name))
	}
	if s := f.String("options"); s != "" {
		if !json.Valid([]byte(s)) {
			return o, fmt.Errorf("options: not valid JSON")
		}
		o.Handler = []byte(s)
	}
	var err error
	o.Prices, err = prices(f)
	return o, err
}

// list splits names at commas; "all" selects all.
func list(s string, all []string) []string {
	if s == "all" {
		return all
	}
	var out []string
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// progressLine rewrites one line of a terminal.
type progressLine struct {
	w     io.Writer
	what  string // format of two numbers
	mu    sync.Mutex
	shown time.Time
}

func (p *progressLine) show(done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); done == total || now.Sub(p.shown) > 200*time.Millisecond {
		p.shown = now
		fmt.Fprintf(p.w, "\r"+p.what, done, total)
	}
}

func (p *progressLine) clear() {
	if !p.shown.IsZero() {
		fmt.Fprintln(p.w)
	}
}
