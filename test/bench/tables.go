// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
)

// table is one kind of measurement, with its name in -only.
type table struct {
	name, about, example string
	make                 func(*bench, context.Context) error
}

// tables are in the order of their execution.
var tables = []table{
	{"cost", "processor time and duration of a request, one at a time", "-rounds 9", (*bench).cost},
	{"throughput", "requests a second with all connections busy", `-traffic "2 KB"`, (*bench).throughput},
	{"stream", "delay of streamed events", "", (*bench).stream},
	{
		"crowd", "200 streams at once, of as many events as two processors pass on, and of few", "-policies cost_aware",
		(*bench).crowd,
	},
	{
		"layers", "cost and throughput with translation, overlay, expand, deltas, and policy off", "-policies cost_aware",
		(*bench).layers,
	},
	{
		"wrk", "throughput by wrk and by this driver, one body over and over", `-policies cost_aware -traffic "2 KB"`,
		(*bench).wrk,
	},
	{
		"regress", "throughput before and now; fails if it has fallen by more than noise and -margin",
		"-policies cost_aware -before /tmp/caddy-before", (*bench).regress,
	},
	{
		"growth", "cost of a request by turns and size of its conversation, which ./lab/growth draws", "-policies cost_aware",
		(*bench).growth,
	},
	{"live", "memory of many sessions", "-policies cost_aware -sessions 10000", (*bench).live},
	{"flood", "memory of many large bodies at once", "-policies cost_aware", (*bench).flood},
	{"stores", "throughput by where sessions are kept", "-stores memory,disk,valkey", (*bench).stores},
	{
		"trouble", "durations while the server of a store is paused or down", `-traffic "Claude Code, 200 KB"`,
		(*bench).trouble,
	},
	{"compress", "throughput while words are left out of old prose", "-model FOLDER", (*bench).compress},
	{"profile", "what the processor does during a request", "-policies cost_aware -profiles FOLDER", (*bench).profile},
}

var errTable = errors.New("no such table")

// known returns an error for an unknown table.
func known(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(tables, func(t table) bool { return t.name == name }) {
			return fmt.Errorf("-only %q: %w", name, errTable)
		}
	}
	return nil
}

// usage prints the flags and the tables.
func usage() {
	out := flag.CommandLine.Output()
	fmt.Fprintln(out, "Usage of bench:")
	flag.PrintDefaults()
	fmt.Fprintln(out, "\nTables, each with an example:")
	for _, t := range tables {
		example := "go run ./bench -only " + t.name
		if t.example != "" {
			example += " " + t.example
		}
		fmt.Fprintf(out, "  %s\n    \t%s\n    \t%s\n", t.name, t.about, example)
	}
}
