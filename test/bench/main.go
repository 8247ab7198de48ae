// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the costs that llm_cache adds to a Caddy: processor time per request,
// throughput, and the delay of streamed events. Each is compared with the same Caddy with a bare
// reverse_proxy, on the same machine and in turns.
//
//	go run ./bench                     # the first three tables, a few minutes
//	go run ./bench -only cost -rounds 9
//	go run ./bench -only throughput -traffic "2 KB"
//	go run ./bench -only stream
//	go run ./bench -only crowd -policies cost_aware                # 200 streams at once
//	go run ./bench -only layers -policies cost_aware               # translation, overlay, expand, deltas
//	go run ./bench -only wrk -policies cost_aware                  # a foreign driver and this one
//	go run ./bench -only regress -policies cost_aware -before FILE # fails if an older Caddy was faster
//	go run ./bench -only growth -policies cost_aware | tee growth.md; go run ./lab/growth growth.md >../docs/images/growth.svg
//	go run ./bench -only live -policies cost_aware -sessions 10000
//	go run ./bench -only flood -policies cost_aware                # memory of large bodies
//	go run ./bench -only stores -stores memory,disk,valkey
//	go run ./bench -only trouble -traffic "Claude Code, 200 KB"    # the server of a store down
//	go run ./bench -only compress -model FOLDER
//	go run ./bench -only profile -policies cost_aware -profiles FOLDER
//
// It builds ./cmd/caddy of the module above, or uses the binary in -caddy. The model is a handler
// in this process that responds at once. All traffic stays on the loopback interface. Numbers in
// parentheses are the 95 % confidence interval of the median, or the extremes of fewer than six
// rounds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/conversation"
)

// bench is one run of the program.
type bench struct {
	binary      string
	leastBinary string // of ./bench/least, for the layers table
	before      string // an older binary, for the regress table
	dir         string // temporary files
	model       string // of the compressor
	profiles    string // folder of profiles, empty for none
	rounds      int
	sessions    int // of the live table
	margin      float64
	traffic     string // part of the names of the traffic to measure
	policies    []string
	kinds       []string // of stores
	only        []string
	loads       []load
	upstream    *upstream
	targets     []*target // the first is bare
}

// load is a kind of traffic.
type load struct {
	name     string
	shape    conversation.Shape
	size     conversation.Size
	from, to int // the band of body sizes, in bytes
	requests int // per round, sequential
}

var loads = []load{
	{"Claude Code, 2 KB", conversation.Claude, conversation.Small, 1700, 2600, 2000},
	{"Claude Code, 200 KB", conversation.Claude, conversation.Agent, 170 << 10, 230 << 10, 600},
	{"Claude Code, 1 MB", conversation.Claude, conversation.Agent, 950 << 10, 1050 << 10, 200},
	{"chat, 2 KB", conversation.Chat, conversation.Small, 1700, 2600, 2000},
	{"chat, 200 KB", conversation.Chat, conversation.Agent, 170 << 10, 230 << 10, 600},
	{"chat, 1 MB", conversation.Chat, conversation.Agent, 950 << 10, 1050 << 10, 200},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	b := &bench{}
	policies := flag.String("policies", "cost_aware,eager", "policies to measure, with commas")
	stores := flag.String("stores", "memory,disk,valkey", "stores to measure in the stores table, with commas")
	only := flag.String("only", "cost,throughput,stream", "tables to make, with commas")
	flag.StringVar(&b.traffic, "traffic", "", "`part` of the names of the traffic to measure, as \"1 MB\"; all if empty")
	flag.StringVar(&b.binary, "caddy", "", "Caddy `binary`; built from the module above if empty")
	flag.StringVar(&b.profiles, "profiles", "", "`folder` in which the profiles of the profile table are left")
	flag.StringVar(&b.model, "model", "", "`folder` of the model of the compress table")
	flag.IntVar(&b.rounds, "rounds", 7, "`times` that each measurement is taken; the median counts")
	flag.StringVar(&b.before, "before", "", "Caddy `binary` that the regress table compares with")
	flag.Float64Var(&b.margin, "margin", 0.03, "`part` of its throughput that a load may lose in the regress table")
	flag.IntVar(&b.sessions, "sessions", 10_000, "`number` of sessions in the live table")
	flag.Usage = usage
	flag.Parse()
	b.policies, b.kinds, b.only = strings.Split(*policies, ","), strings.Split(*stores, ","), strings.Split(*only, ",")
	for _, l := range loads {
		if strings.Contains(l.name, b.traffic) {
			b.loads = append(b.loads, l)
		}
	}

	if err := known(b.only); err != nil {
		return err
	}

	if b.profiles != "" {
		if err := os.MkdirAll(b.profiles, 0o755); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "llm_cache-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b.dir = dir
	if b.binary == "" {
		b.binary = filepath.Join(dir, "caddy")
		if err := caddy.Build(ctx, "..", b.binary); err != nil {
			return err
		}
	}
	if b.binary, err = filepath.Abs(b.binary); err != nil {
		return err
	}
	if b.upstream, err = newUpstream(); err != nil {
		return err
	}
	defer b.upstream.close()
	for i, policy := range append([]string{""}, b.policies...) {
		t, err := startTarget(ctx, b.binary, filepath.Join(dir, strconv.Itoa(i)), policy, "", b.upstream.addr)
		if err != nil {
			return err
		}
		defer t.stop()
		b.targets = append(b.targets, t)
	}
	fmt.Printf("%s, %d processors (%s), %s, medians of %d rounds\n", time.Now().UTC().Format(time.DateOnly),
		runtime.NumCPU(), cpuModel(), runtime.Version(), b.rounds)
	for _, t := range tables {
		if !slices.Contains(b.only, t.name) {
			continue
		}
		if err := t.make(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}
