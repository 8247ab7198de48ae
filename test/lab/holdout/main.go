// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Command holdout checks the intervals of the control group on recorded conversations:
//
//	go -C test run ./lab/holdout -share 0.2 -seeds 200 <folder>...
//
// Each conversation is replayed with edits and under observe. Then it is put into one of both groups
// at random, once for each seed. The intervals of the report, from the records of each group, are
// compared with the truth: the same measures of all conversations in both groups. -sums keeps the sums of the replays in a file, for the next run.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/holdout"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

func main() {
	profile := flag.String("profile", "anthropic-5m", "simulated provider")
	share := flag.Float64("share", 0.2, "share of the control group")
	seeds := flag.Uint64("seeds", 200, "number of random divisions into groups")
	sums := flag.String("sums", "", "file to keep the sums of the replays in")
	flag.Parse()
	if err := run(*profile, *sums, *share, *seeds, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// pair has the sums of one conversation in both groups.
type pair struct {
	Edited  holdout.Session `json:"edited"`
	Control holdout.Session `json:"control"`
}

func run(profile, sums string, share float64, seeds uint64, folders []string) error {
	pairs, err := read(sums)
	if err != nil {
		return err
	}
	if pairs == nil {
		if pairs, err = replay(profile, folders); err != nil {
			return err
		}
		if err := write(sums, pairs); err != nil {
			return err
		}
	}
	return report(os.Stdout, check(pairs, share, seeds), len(pairs), seeds)
}

// read returns the pairs in a file, none without one.
func read(file string) (pairs []*pair, err error) {
	text, err := os.ReadFile(file)
	if file == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return pairs, json.Unmarshal(text, &pairs)
}

func write(file string, pairs []*pair) error {
	if file == "" {
		return nil
	}
	text, err := json.Marshal(pairs)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// replay replays all conversations with edits and under observe.
func replay(profile string, folders []string) ([]*pair, error) {
	conversations, err := recording.Find(folders...)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	of := map[string]*pair{}
	_, err = trial.Run(context.Background(), conversations, trial.Options{
		Profiles: []string{profile}, Policies: []pipeline.Policy{pipeline.CostAware, pipeline.Observe},
		Record: func(c *recording.Conversation, r *audit.Record) {
			mu.Lock()
			defer mu.Unlock()
			p := of[c.Name]
			if p == nil {
				p = &pair{Edited: holdout.Session{ID: c.Name}, Control: holdout.Session{ID: c.Name}}
				of[c.Name] = p
			}
			if r.Policy == string(pipeline.Observe) {
				r.CountHoldout(&p.Control)
			} else {
				r.CountHoldout(&p.Edited)
			}
		},
		Progress: func(done, total int) {
			if done%1000 == 0 || done == total {
				fmt.Fprintf(os.Stderr, "\rreplayed %d of %d requests", done, total)
			}
		},
	})
	fmt.Fprintln(os.Stderr)
	pairs := make([]*pair, 0, len(of))
	for _, p := range of {
		pairs = append(pairs, p)
	}
	slices.SortFunc(pairs, func(a, b *pair) int { return cmp.Compare(a.Edited.ID, b.Edited.ID) })
	return pairs, err
}

// coverage tells how often the intervals of a measure hold the truth.
type coverage struct {
	name           string
	truth          float64 // the change between all conversations in both groups
	known, covered int     // intervals, and those that hold the truth
	mean           float64 // of the estimates
	halves         []float64
}

// check divides the conversations at random, and compares the intervals with the truth.
func check(pairs []*pair, share float64, seeds uint64) []*coverage {
	edited, control := make([]*holdout.Session, 0, len(pairs)), make([]*holdout.Session, 0, len(pairs))
	for _, p := range pairs {
		edited, control = append(edited, &p.Edited), append(control, &p.Control)
	}
	measures := holdout.Compare(edited, control).Measures
	all := make([]*coverage, 0, len(measures))
	for _, m := range measures {
		truth := m.Edited/m.Control - 1
		if m.Name == holdout.Cost { // without the error of the simulated side
			truth = cost(edited)/cost(control) - 1
		}
		all = append(all, &coverage{name: m.Name, truth: truth})
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
		edited, control = edited[:0], control[:0]
		for _, p := range pairs {
			if random.Float64() < share {
				control = append(control, &p.Control)
			} else {
				edited = append(edited, &p.Edited)
			}
		}
		for i, m := range holdout.Compare(edited, control).Measures {
			if c := all[i]; m.Known {
				c.known++
				c.mean += m.Change
				c.halves = append(c.halves, (m.High-m.Low)/2)
				if m.Low <= c.truth && c.truth <= m.High {
					c.covered++
				}
			}
		}
	}
	return all
}

func cost(all []*holdout.Session) (sum float64) {
	for _, c := range all {
		sum += c.USD
	}
	return sum
}

func report(w io.Writer, all []*coverage, conversations int, seeds uint64) error {
	fmt.Fprintf(w, "%d conversations, %d divisions into two groups\n", conversations, seeds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "measure\ttruth\tmean estimate\tintervals\tthat cover it\thalf width, median\t")
	for _, c := range all {
		if c.known == 0 || c.name == holdout.FirstToken { // times of the replay itself
			continue
		}
		slices.Sort(c.halves)
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t\n", strings.ReplaceAll(c.name, "_", " "), figure.Change(1+c.truth),
			figure.Change(1+c.mean/float64(c.known)), c.known, figure.Percent(float64(c.covered)/float64(c.known)),
			figure.Percent(c.halves[len(c.halves)/2]))
	}
	return t.Flush()
}
