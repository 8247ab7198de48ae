// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Command study replays recorded conversations like caddy llm-cache replay, for questions beyond
// the savings of the present build: the best possible result, cost against harm, and out-of-fold
// figures.
//
//	go -C test run ./lab/study -folds-by repo -keepalive -profile anthropic-5m <path>...
//
// With -optimum it prints the optimum of folding old tool results with hindsight: at any request,
// and at users' prompts and when the cache is cold.
//
// With -folds and -fold only one fold of the conversations is replayed, so that parameters fitted
// on the others can be tested. The folds are deterministic.
//
// With -folds-by repo each conversation is replayed with a need model that was fitted without the
// repositories of its owner, so the figures are out of sample. The models come from -models; go -C
// test run ./lab/fit fits them.
//
// With -background a local server folds in pauses, if the profile has one: it reads history that
// was folded during a response before the next request, if the recorded pause is long enough at
// -speed tokens a second. These tokens are not part of the cost and are reported separately.
//
// With -expanding the simulated model does not quote folded text: it first restores it by the
// expand tool, if that is declared. The cost includes these round trips, and the harm is the
// remaining harm.
//
// With -frontier the first policy is replayed at several tolerances of harm. Cost against harm is
// drawn as one curve for each profile, with eager and off for comparison.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/needmodels"
	"github.com/caddy-llm-cache/caddy-llm-cache/test/lab/study/optimum"
)

func main() {
	if err := study(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// findings are the results of a replay or a sweep.
type findings interface {
	WriteText(w io.Writer) error
	WriteJSON(w io.Writer) error
	Violations() []string
}

func study(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("study", flag.ContinueOnError)
	profile := f.String("profile", pricing.Profiles()[0], "simulated providers: "+strings.Join(pricing.Profiles(), ", ")+
		", or all")
	policy := f.String("policy", string(pipeline.CostAware), "policies: off, observe, eager, cost_aware, or all")
	options := f.String("options", "", "further options of the handler, as JSON")
	keepAlive := f.Bool("keepalive", false, "keep caches alive in pauses")
	asJSON := f.Bool("json", false, "print the report as JSON")
	best := f.Bool("optimum", false, "tell the best possible result too, with hindsight and without harm")
	over := f.Int("optimum-over", 500, "the length in characters above which -optimum folds")
	hot := f.Int("optimum-hot", 4, "the number of turns at the end that -optimum leaves alone")
	inputs := f.Bool("optimum-inputs", false, "let -optimum fold inputs of tools too")
	folds := f.Int("folds", 0,
		"split the conversations into so many parts, by a hash of the session id, and replay one: see -fold")
	fold := f.Int("fold", 1, "which part to replay, from 1 to -folds; negative for all but that part")
	foldsBy := f.String("folds-by", "",
		"repo: replay each conversation with a need model of -models that was fitted without the repositories of its owner")
	models := f.String("models", "lab/fit/folds.json", "file of the models for -folds-by")
	frontier := f.String("frontier", "", "file to draw cost against harm to, an SVG")
	risks := f.String("risks", "0,0.25,0.5,1,2,4", "values of the planner's option risk for -frontier")
	background := f.Bool("background", false, "fold on local boxes while nobody waits")
	speed := f.Float64("speed", 500, "how many tokens of a prompt the box of -background reads in a second")
	expanding := f.Bool("expanding", false, "have the model call the expand tool for folded text before it quotes it")
	summaries := f.Bool("summaries", false,
		"have Codex ask for a summary, without its tools, where a recorded conversation was compacted")
	if err := f.Parse(args); err != nil {
		return err
	}

	o := trial.Options{
		Profiles: list(*profile, pricing.Profiles()), Handler: []byte(*options), KeepAlive: *keepAlive,
		Expanding: *expanding, Summaries: *summaries,
	}
	if *policy == "all" {
		o.Policies = trial.Policies
	} else {
		for _, name := range list(*policy, nil) {
			if !slices.Contains(trial.Policies, pipeline.Policy(name)) {
				return fmt.Errorf("-policy must be one of %v, got %q", trial.Policies, name)
			}
			o.Policies = append(o.Policies, pipeline.Policy(name))
		}
	}
	if *options != "" && !json.Valid(o.Handler) {
		return errors.New("-options: not valid JSON")
	}
	if *background {
		if o.Background = *speed; *speed <= 0 {
			return fmt.Errorf("-speed: %v is not above zero", *speed)
		}
	}
	switch *foldsBy {
	case "":
	case "repo":
		m, err := needmodels.Read(*models)
		if err != nil {
			return err
		}
		o.Need = m.For
	default:
		return fmt.Errorf("-folds-by: %q is not repo", *foldsBy)
	}
	var hindsight *optimum.Options
	if *best {
		hindsight = &optimum.Options{Over: *over, Hot: *hot, Inputs: *inputs}
	}
	conversations, err := recording.Find(f.Args()...)
	if err == nil && *folds != 0 {
		conversations, err = selected(conversations, *folds, *fold)
	}
	if err != nil {
		return err
	}
	o.Progress = func(done, total int) {
		if done%100 == 0 || done == total {
			fmt.Fprintf(os.Stderr, "\rreplayed %d of %d requests", done, total)
		}
	}

	var found findings
	if *frontier != "" {
		found, err = drawn(ctx, conversations, o, hindsight, *frontier, *risks)
	} else {
		found, err = run(ctx, conversations, o, hindsight)
	}
	fmt.Fprintln(os.Stderr)
	if err != nil {
		return err
	}
	write := found.WriteText
	if *asJSON {
		write = found.WriteJSON
	}
	if err := write(out); err != nil {
		return err
	}
	if v := found.Violations(); len(v) > 0 {
		return fmt.Errorf("%d results against the rules, the first: %s", len(v), v[0])
	}
	return nil
}

// drawn replays at several tolerances and draws the frontier to a file.
func drawn(ctx context.Context, conversations []*recording.Conversation, o trial.Options, best *optimum.Options, path,
	risks string,
) (*Frontier, error) {
	var values []float64
	for _, s := range list(risks, nil) {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, fmt.Errorf("-risks: %q is not a number", s)
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return nil, errors.New("-risks: none given")
	}
	f, err := sweep(ctx, conversations, o, best, values)
	if err != nil {
		return nil, err
	}
	to, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return f, errors.Join(f.Draw(to), to.Close())
}

// selected returns the conversations of one of k folds, or of all other folds if fold is negative.
// It serves cross-validation: parameters fitted on all folds but one are measured on that one.
func selected(conversations []*recording.Conversation, k, fold int) ([]*recording.Conversation, error) {
	want := max(fold, -fold)
	if k < 2 || want < 1 || want > k {
		return nil, fmt.Errorf("-folds: fold %d of %d: there are 1 to %d, or -1 to -%d for all but one", fold, k, k, k)
	}
	var out []*recording.Conversation
	for _, c := range conversations {
		if (recording.Fold(c.Session, k) == want) == (fold > 0) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("-folds: no conversation is in fold %d of %d", fold, k)
	}
	return out, nil
}

// list splits names at commas; "all" selects all, if all is not nil.
func list(s string, all []string) []string {
	if s == "all" && all != nil {
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
