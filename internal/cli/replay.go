// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/optimum"
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

With --optimum the summary has rows for the best that folding old tool results
could come to with hindsight: at any request, and at the prompts of persons and
when the cache is cold.

With --folds and --fold only a part of the conversations is replayed, so that
what was fitted on the others can be tested: a conversation is in the same part
every time.

With --folds-by repo each conversation is replayed with a need model that was fitted
without the repositories of its owner, so that the figures are those of strangers.
The models are those of --models; go -C test run ./lab/fit need fits them.

With --keepalive caches are kept alive in pauses, as the handler's options say.
What the pings cost is part of the cost, but for those after the last request of
a conversation: what the person did then is not recorded. They are told apart,
as what is lost if nobody came back.

With --background a box folds while nobody waits, where the profile has one:
history that has been folded behind an answer is read by the box before the next
request, if the recorded pause is long enough at --speed tokens a second. What is
read so is no part of the cost and told apart.

With --expanding the simulated model does not quote text that was folded: it first
gets it back by the expand tool, where that is declared. The cost holds these
round trips; harm is what remains.

With --frontier the first policy is replayed at several tolerances of harm, and
cost against harm is drawn, one curve for each profile, with eager and off for
comparison.
`,
		Args: cobra.MinimumNArgs(1),
		RunE: subcommand.Run(replayMain),
	}
	cmd.Flags().String("profile", pricing.Profiles()[0], "Simulated providers: "+strings.Join(pricing.Profiles(), ", "))
	cmd.Flags().String("policy", string(pipeline.CostAware), "Policies: off, observe, eager, cost_aware")
	cmd.Flags().String("options", "", "Further options of the handler, as JSON")
	pricesFlag(cmd)
	cmd.Flags().Bool("optimum", false, "Tell the best possible result too: folding old tool results with hindsight, without harm")
	cmd.Flags().Int("optimum-over", 500, "The length in characters above which --optimum folds")
	cmd.Flags().Int("optimum-hot", 4, "The number of turns at the end that --optimum leaves alone")
	cmd.Flags().Bool("optimum-inputs", false, "Let --optimum fold inputs of tools too")
	cmd.Flags().Int("folds", 0, "Split the conversations into so many parts, by a hash of the session id, and replay one: see --fold")
	cmd.Flags().Int("fold", 1, "Which part to replay, from 1 to --folds; negative for all but that part")
	cmd.Flags().String("folds-by", "", "\"repo\": replay each conversation with a need model of --models that was fitted without the repositories of its owner")
	cmd.Flags().String("models", "test/lab/fit/folds.json", "File of the models for --folds-by, as go -C test run ./lab/fit need writes it")
	cmd.Flags().String("frontier", "", "File to draw cost against harm to, an SVG: replays the policy at the harm tolerances of --risks")
	cmd.Flags().String("risks", "0,0.25,0.5,1,2,4", "Values of the planner's option risk for --frontier")
	cmd.Flags().Bool("keepalive", false, "Keep caches alive in pauses")
	cmd.Flags().Bool("background", false, "Fold on local boxes while nobody waits")
	cmd.Flags().Float64("speed", 500, "How many tokens of a prompt the box of --background reads in a second")
	cmd.Flags().Bool("expanding", false, "Have the model call the expand tool for folded text before it quotes it")
	cmd.Flags().Bool("summaries", false, "Have Codex ask for a summary, without its tools, where a recorded conversation was compacted")
	cmd.Flags().Bool("json", false, "Print the report as JSON")
	return cmd
}

func replayMain(cmd *cobra.Command, f caddycmd.Flags) error {
	o, err := options(f)
	if err != nil {
		return err
	}
	if f.Bool("optimum") {
		o.Optimum = &optimum.Options{Over: f.Int("optimum-over"), Hot: f.Int("optimum-hot"), Inputs: f.Bool("optimum-inputs")}
	}
	conversations, err := recording.Find(f.Args()...)
	if k := f.Int("folds"); err == nil && k != 0 {
		conversations, err = recording.Select(conversations, k, f.Int("fold"))
	}
	switch by := f.String("folds-by"); {
	case err != nil || by == "":
	case by == "repo":
		o.Models, err = trial.ReadModels(f.String("models"))
	default:
		err = fmt.Errorf("folds-by: %q is not repo", by)
	}
	if err != nil {
		return err
	}
	line := &progressLine{w: cmd.ErrOrStderr(), what: "replayed %d of %d requests"}
	o.Progress, o.KeepAlive, o.Expanding = line.show, f.Bool("keepalive"), f.Bool("expanding")
	o.Summaries = f.Bool("summaries")
	if f.Bool("background") {
		if o.Background = f.Float64("speed"); o.Background <= 0 {
			return fmt.Errorf("speed: %v is not above zero", o.Background)
		}
	}
	var report findings
	if path := f.String("frontier"); path != "" {
		report, err = sweep(cmd.Context(), conversations, o, path, f.String("risks"))
	} else {
		report, err = trial.Run(cmd.Context(), conversations, o)
	}
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

// findings is what a replay or a sweep has found out.
type findings interface {
	WriteText(w io.Writer) error
	WriteJSON(w io.Writer) error
	Violations() []string
}

// sweep replays at several tolerances and draws the frontier to a file.
func sweep(ctx context.Context, conversations []*recording.Conversation, o trial.Options, path, risks string) (*trial.Frontier, error) {
	var values []float64
	for _, s := range list(risks, nil) {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, fmt.Errorf("risks: %q is not a number", s)
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("risks: none given")
	}
	f, err := trial.Sweep(ctx, conversations, o, values)
	if err != nil {
		return nil, err
	}
	return f, save(path, f.Draw)
}

// options reads the flags that all commands share.
func options(f caddycmd.Flags) (trial.Options, error) {
	o := trial.Options{Profiles: list(f.String("profile"), pricing.Profiles())}
	names := make([]string, len(trial.Policies))
	for i, p := range trial.Policies {
		names[i] = string(p)
	}
	for _, name := range list(f.String("policy"), names) {
		if !slices.Contains(names, name) {
			return o, fmt.Errorf("policy: %q is none of %s", name, strings.Join(names, ", "))
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

// list splits names at commas; "all" stands for all.
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

// progressLine writes one line over and over.
type progressLine struct {
	w     io.Writer
	what  string // of two numbers
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

// clear ends the line, so that what follows does not overwrite it.
func (p *progressLine) clear() {
	if !p.shown.IsZero() {
		fmt.Fprintln(p.w)
	}
}
