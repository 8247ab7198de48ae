// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
)

// target is a Caddy under measurement.
type target struct {
	name    string
	addr    string
	edits   bool // llm_cache processes requests
	process *caddy.Process
	behind  *target // the next Caddy, nil before the model
}

// startTarget starts a Caddy with llm_cache under a policy, or a bare one if the policy is empty.
// global holds Caddy's global options.
func startTarget(ctx context.Context, binary, dir, policy, global, upstream string) (*target, error) {
	if policy == "" {
		return startCaddy(ctx, binary, dir, "bare", "", global, upstream)
	}
	t, err := startCaddy(ctx, binary, dir, policy, fmt.Sprintf("llm_cache {\n\t\tpolicy %s\n\t}", policy),
		global, upstream)
	if err == nil {
		t.edits = policy != "off"
	}
	return t, err
}

// startCaddy starts a Caddy with a directive before its reverse_proxy.
func startCaddy(ctx context.Context, binary, dir, name, directive, global, upstream string) (*target, error) {
	addrs, err := caddy.FreeAddrs(2)
	if err != nil {
		return nil, err
	}
	t := &target{name: name, addr: addrs[0]}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	t.process, err = caddy.Start(ctx, binary, dir, addrs[1], fmt.Sprintf(`{
	admin %s
	persist_config off
	auto_https off
	log {
		level ERROR
	}
	%s
}
http://%s {
	bind 127.0.0.1
	%s
	reverse_proxy %s
}
`, addrs[1], global, t.addr, directive, upstream))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	return t, nil
}

// used returns the processor time of the target and of the Caddy behind it.
func (t *target) used() (time.Duration, error) {
	sum, err := cpuTime(t.process.PID())
	if err != nil || t.behind == nil {
		return sum, err
	}
	more, err := t.behind.used()
	return sum + more, err
}

// cpu returns the processor time that the target used while f ran.
func (t *target) cpu(f func() error) (time.Duration, error) {
	before, err := t.used()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := t.used()
	return after - before, err
}

// waitIdle waits until the target is nearly idle, for a second at most, and returns its processor
// time until then.
func (t *target) waitIdle(ctx context.Context) (time.Duration, error) {
	var sum time.Duration
	for begun := time.Now(); time.Since(begun) < time.Second; {
		used, err := t.cpu(func() error {
			time.Sleep(5 * time.Millisecond)
			return ctx.Err()
		})
		if err != nil {
			return sum, err
		}
		if sum += used; used < 200*time.Microsecond {
			break
		}
	}
	return sum, nil
}

func (t *target) stop() {
	if t.behind != nil {
		defer t.behind.stop()
	}
	if err := t.process.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", t.name+":", err)
	}
}
