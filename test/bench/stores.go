// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/redis"
)

// longTurns are long compared with the delay of a second before writes: most writes of a store fall
// into its own turn.
var longTurns = course{turns: 2, volume: 16}

// stores measures the cost of durable sessions: throughput as in the throughput table, over stores
// instead of policies. It starts a Redis server for the store that needs one, on the same
// processors.
func (b *bench) stores(ctx context.Context) error {
	var targets []*target
	for _, kind := range b.kinds {
		options := kind
		if kind == "valkey" {
			s, err := startRedis(ctx, filepath.Join(b.dir, "redis"))
			if err != nil {
				return err
			}
			defer s.Kill()
			// A store without a wait costs nothing: on a machine without an idle processor the
			// default timeout would amount to that.
			options = fmt.Sprintf("valkey {\n\t\t\taddress %s\n\t\t\ttimeout 1s\n\t\t}", s.Addr)
		}
		t, err := startTarget(ctx, b.binary, filepath.Join(b.dir, "store "+kind), "cost_aware", "llm_cache {\n\t\tstore "+
			options+"\n\t}", b.upstream.addr)
		if err != nil {
			return err
		}
		defer t.stop()
		t.name = kind
		targets = append(targets, t)
	}
	if err := b.race(ctx, fmt.Sprintf("Stores, %d connections", connections), "ratio to "+targets[0].name, targets,
		longTurns); err != nil {
		return err
	}
	if b.profiles != "" { // shows the differences between stores
		b.targets = targets
		if err := b.profile(ctx); err != nil {
			return err
		}
	}
	for _, t := range targets {
		if err := t.stored(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

func startRedis(ctx context.Context, dir string) (*redis.Server, error) {
	addrs, err := caddy.FreeAddrs(1)
	if err != nil {
		return nil, err
	}
	s, err := redis.New(dir, addrs[0])
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return s, s.Start(ctx)
}

// stored returns an error if the target's store had failures.
func (t *target) stored(ctx context.Context) error {
	lines, err := t.metrics(ctx)
	for _, s := range lines {
		if strings.HasPrefix(s, "caddy_llm_cache_store_errors_total{") && !strings.HasSuffix(s, " 0") {
			err = fmt.Errorf("what was measured is a store that fails: %s", s)
		}
	}
	return err
}
