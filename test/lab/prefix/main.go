// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Command prefix measures the cost of changes of tools and system prompts within a conversation:
//
//	go -C test run ./lab/prefix -profile anthropic-5m,openai,gemini -every 8 <folder>...
//
// Clients make such changes: they list tools in random order, MCP servers connect late, and lines of
// the system prompt tell the time. Each change is made in all requests of recorded conversations. The
// costs of the client's own bytes and of the requests through llm_cache are printed as changes of the
// cost of the recorded requests as they are.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func main() {
	profiles := flag.String("profile", "anthropic-5m,openai,gemini", "simulated providers")
	every := flag.Int("every", 1, "replay each conversation of this number only")
	flag.Parse()
	if err := run(os.Stdout, strings.Split(*profiles, ","), *every, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// changes are the changes by name. Each returns the cuts of one request.
var changes = []struct {
	name string
	make func(v *wire.View, c *recording.Conversation, number int) []wire.Cut
}{
	{"as recorded", nil},
	{"tools in another order in each request", shuffled},
	{"tools in another order once, in request 20", func(v *wire.View, c *recording.Conversation, number int) []wire.Cut {
		return shuffled(v, c, min(number/lateOrder, 1))
	}},
	{"eight tools more from request 4 on, among the others by name", late},
	{"a line of the system prompt tells the minute", func(v *wire.View, _ *recording.Conversation, number int) []wire.Cut {
		return line(v, fmt.Sprintf("Time: 2026-11-20 %02d:%02d", number/60%24, number%60))
	}},
	{"a line of the system prompt changes each 50 requests", func(
		v *wire.View, _ *recording.Conversation, number int,
	) []wire.Cut {
		return line(v, fmt.Sprintf("Status: %d files changed", number/50))
	}},
}

const (
	lateOrder = 20 // the first request with another order of tools
	lateTools = 4  // the first request with the tools of an MCP server
)

func run(out io.Writer, profiles []string, every int, folders []string) error {
	all, err := recording.Find(folders...)
	if err != nil {
		return err
	}
	if every < 1 {
		return errors.New("-every must be at least 1")
	}
	var conversations []*recording.Conversation
	for i := 0; i < len(all); i += every {
		conversations = append(conversations, all[i])
	}
	fmt.Fprintf(out, "%d conversations\n", len(conversations))
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "change\tprofile\tclient's own bytes\tllm_cache\tdearer\tharm\trefused\t")
	recorded := map[string]float64{}
	for _, change := range changes {
		o := trial.Options{Profiles: profiles, Progress: func(done, total int) {
			if done%1000 == 0 || done == total {
				fmt.Fprintf(os.Stderr, "\r%s: replayed %d of %d requests ", change.name, done, total)
			}
		}}
		if change.make != nil {
			o.Change = func(c *recording.Conversation, p *pricing.Profile, number int, body []byte) ([]byte, error) {
				v, err := wire.Parse(p.Format, body, nil)
				if err != nil {
					return nil, err
				}
				return wire.Replace(body, change.make(v, c, number))
			}
		}
		report, err := trial.Run(context.Background(), conversations, o)
		if err != nil {
			return err
		}
		for i := range report.Runs {
			r := &report.Runs[i]
			if change.make == nil {
				recorded[r.Total.Profile] = r.Total.BaseCost
			}
			dearer := 0
			for j := range r.Conversations {
				if r.Conversations[j].CostRatio() > 1.005 {
					dearer++
				}
			}
			base := recorded[r.Total.Profile]
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%d\t\n", change.name, r.Total.Profile, figure.Change(r.Total.BaseCost/base),
				figure.Change(r.Total.Cost/base), dearer, figure.Percent(float64(r.Total.Harmed)/float64(max(r.Total.Edits, 1))),
				r.Total.Rejected)
		}
	}
	fmt.Fprintln(os.Stderr)
	return t.Flush()
}

// shuffled puts the tools into a random order, by the number of the request.
func shuffled(v *wire.View, c *recording.Conversation, number int) (cuts []wire.Cut) {
	if number == 0 {
		return nil
	}
	random := rand.New(rand.NewPCG(uint64(number), uint64(len(c.Name)))) //nolint:gosec // no secret
	for i, j := range random.Perm(v.Tools) {
		to := v.Blocks[i].Span
		cuts = append(cuts, wire.Cut{Start: to.Start, End: to.End, With: v.Bytes(v.Blocks[j].Span)})
	}
	return cuts
}

// late adds the tools of an MCP server, in the order of names.
func late(v *wire.View, _ *recording.Conversation, number int) (cuts []wire.Cut) {
	if number < lateTools || v.Tools == 0 {
		return nil
	}
	// The names of recorded tools are sorted, the server's follow them in lower case.
	at, _ := slices.BinarySearchFunc(v.Blocks[:v.Tools], "P", func(b wire.Block, name string) int {
		return strings.Compare(v.Text(b.Name), name)
	})
	at = min(at, v.Tools-1)
	like, start := &v.Blocks[at], v.Blocks[at].Span.Start
	var more []byte
	for i := range 8 {
		one, err := wire.Replace(v.Bytes(like.Span), []wire.Cut{{
			Start: like.Name.Start - start, End: like.Name.End - start, With: fmt.Appendf(nil, "PTracker_%d", i),
		}})
		if err != nil {
			return nil
		}
		more = append(append(more, one...), ',')
	}
	return []wire.Cut{{Start: start, End: start, With: more}}
}

// line adds a line to the end of the system prompt.
func line(v *wire.View, text string) []wire.Cut {
	var last *wire.Block
	for i := v.Tools; i < len(v.Blocks); i++ {
		b := &v.Blocks[i]
		if b.Section == wire.SectionMessages && b.Role != wire.RoleSystem {
			break
		}
		if b.Kind == wire.KindText && b.Body.Len() > 1 && v.Raw[b.Body.End-1] == '"' {
			last = b
		}
	}
	if last == nil {
		return nil
	}
	return []wire.Cut{{Start: last.Body.End - 1, End: last.Body.End - 1, With: []byte(`\n` + text)}}
}
