// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Command giveback computes the value of restoring folded texts at certain moments, on recorded
// conversations:
//
//	go -C test run ./lab/giveback -price 2e6 <folder>...
//
// Each conversation is replayed with the need model fitted without its owner, at a price of harm,
// and without restores. For each kind of moment it prints the number of texts to restore, their
// tokens, the number of harmed edits that the restores would have reached with all missed text, and
// the cost: a restored text is written once, and read by every later request that has it in its
// history.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/needmodels"
)

func main() {
	profile := flag.String("profile", "anthropic-5m", "simulated provider")
	price := flag.Float64("price", 2e6, "price of harm, in tokens read")
	flag.Parse()
	if err := run(*profile, *price, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(profile string, price float64, folders []string) error {
	models, err := needmodels.Read("lab/fit/folds.json")
	if err != nil {
		return err
	}
	conversations, err := recording.Find(folders...)
	if err != nil {
		return err
	}
	p, err := pricing.ProfileByName(profile)
	if err != nil {
		return err
	}
	found := make([]*finding, len(conversations))
	errs := make([]error, len(conversations))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(conversations); i = int(next.Add(1)) - 1 {
				found[i], errs[i] = find(conversations[i], p, models, price)
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	report(os.Stdout, found, p.Rules())
	return nil
}

// find replays a conversation and records its folds and the moments after them.
func find(c *recording.Conversation, p pricing.Profile, models *needmodels.Models, price float64) (*finding, error) {
	f := &finding{folds: map[string]*fold{}}
	b, err := trial.NewBench(trial.Options{
		Profiles: []string{p.Name}, KeepAlive: true, Need: models.For, Harm: &planner.Harm{Price: price, Long: 4000},
		Watch:   f.watch,
		Handler: []byte(`{"planner": {"restore": false}}`),
	})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	f.Result, err = b.Replay(context.Background(), c, p, func() {})
	if f.failed != nil {
		err = f.failed
	}
	return f, err
}
