// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/redis"
)

const (
	// spell is the duration of the trouble in each round.
	spell = 5 * time.Second
	// beat is the time between two requests of a conversation. After one request that waited for
	// the server, several come while requests skip the wait.
	beat = 100 * time.Millisecond
)

// trouble measures the wait of a request for a store with its server in trouble, against a store in
// memory at the same time.
func (b *bench) trouble(ctx context.Context) error {
	s, err := startRedis(ctx, filepath.Join(b.dir, "redis in trouble"))
	if err != nil {
		return err
	}
	defer func() { s.Kill() }()
	var targets []*target
	for _, kind := range []string{"memory", "valkey"} {
		options := kind
		if kind == "valkey" {
			options = fmt.Sprintf("valkey {\n\t\t\taddress %s\n\t\t}", s.Addr)
		}
		t, err := startTarget(ctx, b.binary, filepath.Join(b.dir, "trouble "+kind), "cost_aware", "llm_cache {\n\t\tstore "+
			options+"\n\t}", b.upstream.addr)
		if err != nil {
			return err
		}
		defer t.stop()
		t.name = kind
		targets = append(targets, t)
	}
	heading("A request of a store in trouble, in ms", "traffic", "server", "memory: p50", "valkey: p50", "memory: p99",
		"valkey: p99", "p99 added", "valkey: longest")
	for i := range b.loads {
		l := &b.loads[i]
		for _, state := range []struct {
			name        string
			begin, over func() error
		}{
			{"well", func() error { return nil }, func() error { return nil }},
			{"paused", func() error { s.Pause(); return nil }, func() error { s.Resume(); return nil }},
			{"down", func() error { s.Kill(); return nil }, func() error { return again(ctx, s) }},
		} {
			took := make([][]time.Duration, len(targets))
			for range b.rounds {
				// Until the store uses the server again.
				if err := b.beats(ctx, l, targets, time.Second, make([][]time.Duration, len(targets))); err != nil {
					return err
				}
				if err := state.begin(); err != nil {
					return err
				}
				err := b.beats(ctx, l, targets, spell, took)
				if e := state.over(); e != nil {
					return e
				}
				if err != nil {
					return fmt.Errorf("%s: %s: %w", l.name, state.name, err)
				}
			}
			memory, valkey := took[0], took[1]
			row(l.name, state.name, ms(median(memory)), ms(median(valkey)), ms(quantile(memory, 0.99)),
				ms(quantile(valkey, 0.99)),
				ms(quantile(valkey, 0.99)-quantile(memory, 0.99)), ms(quantile(valkey, 1)))
		}
	}
	return nil
}

// again starts a killed server.
func again(ctx context.Context, s *redis.Server) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return s.Start(ctx)
}

// beats sends requests of a conversation to each of several Caddys in turns for some time, and
// records their durations.
func (b *bench) beats(
	ctx context.Context, l *load, targets []*target, lasts time.Duration, took [][]time.Duration,
) error {
	tape, key := b.newTape(l)
	talks := make([]*talk, len(targets))
	for i, t := range targets {
		c, err := dial(t)
		if err != nil {
			return err
		}
		defer c.close()
		talks[i] = newTalk(c, l, tape, key, fmt.Sprintf("%s in trouble %d", l.name, time.Now().UnixNano()))
	}
	ticks := time.NewTicker(beat / time.Duration(len(targets)))
	defer ticks.Stop()
	end := time.Now().Add(lasts)
	for n := 0; time.Now().Before(end); n++ {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		i := n % len(targets)
		begun := time.Now()
		if err := talks[i].next(); err != nil {
			return fmt.Errorf("%s: %w", targets[i].name, err)
		}
		took[i] = append(took[i], time.Since(begun))
	}
	return nil
}
