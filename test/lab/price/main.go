// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Command price measures the effect of the planner's price of harm on recorded conversations, and
// chooses a price for each provider:
//
//	go -C test run ./lab/price -profiles anthropic-5m,openai -results prices.jsonl <folder>...
//
// Each conversation is replayed at each price with the need model of lab/fit/folds.json that was
// fitted without its owner. The price for the owners of a fold is the lowest with the harm of all
// other folds within the bound. Its printed results are those on the fold. The results of each price
// are printed by length and by agent, too. They are appended to the results file, so that prices can
// be added later.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/needmodels"
)

// setting is the parameters of a replay.
type setting struct {
	Profile    string       `json:"profile"`
	Harm       planner.Harm `json:"harm"`
	KeepAlive  bool         `json:"keepalive"`
	Background float64      `json:"background"`
}

// result is the results of all conversations at one setting.
type result struct {
	setting
	Conversations []outcome `json:"conversations"`
}

// outcome is the result of one conversation.
type outcome struct {
	Name     string  `json:"name"`
	Owner    string  `json:"owner"`
	Agent    string  `json:"agent"`
	Calls    int     `json:"calls"`
	BaseCost float64 `json:"base_cost"`
	Cost     float64 `json:"cost"`
	Edits    int     `json:"edits"`
	Harmed   int     `json:"harmed"`
}

func main() {
	profiles := flag.String("profiles", "anthropic-5m", "simulated providers")
	prices := flag.String("prices", "2e6,4e6,6e6,8e6,12e6", "prices, in tokens read")
	long := flag.Float64("long", 4000, "length in tokens for which the price doubles")
	keepAlive := flag.Bool("keepalive", false, "keep caches alive in pauses")
	background := flag.Float64("background", 0, "have boxes fold in pauses, reading so many tokens a second")
	bound := flag.Float64("bound", 0.01, "the share of edits that may be harmed")
	file := flag.String("results", "prices.jsonl", "where the results are kept")
	flag.Parse()
	if err := run(strings.Split(*profiles, ","), strings.Split(*prices, ","), setting{
		Harm: planner.Harm{Long: *long}, KeepAlive: *keepAlive, Background: *background,
	}, *bound, *file, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(profiles, prices []string, s setting, bound float64, file string, folders []string) error {
	models, err := needmodels.Read("lab/fit/folds.json")
	if err != nil {
		return err
	}
	conversations, err := recording.Find(folders...)
	if err != nil {
		return err
	}
	kept, err := read(file)
	if err != nil {
		return err
	}
	for _, s.Profile = range profiles {
		var tried []*result
		for _, price := range prices {
			if s.Harm.Price, err = strconv.ParseFloat(price, 64); err != nil {
				return fmt.Errorf("prices: %w", err)
			}
			r := kept[s]
			if r == nil {
				if r, err = s.replay(conversations, models, file); err != nil {
					return err
				}
			}
			tried = append(tried, r)
		}
		report(os.Stdout, tried, models.Fold, bound)
	}
	return nil
}

// read returns the results in a file, none for a missing file.
func read(file string) (map[setting]*result, error) {
	out := map[setting]*result{}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		r := new(result)
		if err := json.Unmarshal(lines.Bytes(), r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out[r.setting] = r
	}
	return out, lines.Err()
}

// replay replays all conversations at a setting, and stores the results.
func (s setting) replay(
	conversations []*recording.Conversation, models *needmodels.Models, file string,
) (*result, error) {
	report, err := trial.Run(context.Background(), conversations, trial.Options{
		Profiles: []string{s.Profile}, KeepAlive: s.KeepAlive, Background: s.Background, Need: models.For, Harm: &s.Harm,
	})
	if err != nil {
		return nil, err
	}
	owners := map[string]string{}
	for _, c := range conversations {
		owners[c.Name] = c.Owner()
	}
	r := &result{setting: s}
	for _, c := range report.Runs[0].Conversations {
		r.Conversations = append(r.Conversations, outcome{
			c.Conversation, owners[c.Conversation], c.Agent, c.Calls, c.BaseCost, c.Cost, c.Edits, c.Harmed,
		})
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return r, errors.Join(json.NewEncoder(f).Encode(r), f.Close())
}
