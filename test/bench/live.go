// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/conversation"
)

const (
	liveTurns = 100
	// liveRest is the time until the system has the memory back: unused sessions are packed after one to one and a half
	// minutes, and the runtime, which collects every two minutes without allocations, returns memory after the second one.
	liveRest = 7 * time.Minute
)

// errSessions says that the store dropped sessions.
var errSessions = errors.New("sessions were dropped meanwhile")

// live measures the memory of a Caddy with many sessions of liveTurns turns each, against a bare
// one after the same traffic. All Caddys rest at the same time.
func (b *bench) live(ctx context.Context) error {
	heading(fmt.Sprintf("Memory of %d sessions of %d turns", b.sessions, liveTurns), "traffic", "Caddy", "RSS before, MB",
		"after, MB", "at rest, MB", "KiB a session, at rest", "peak, MB")
	for _, size := range []struct {
		name string
		conversation.Size
	}{{"short results", conversation.Small}, {"an agent's results", conversation.Agent}} {
		if !strings.Contains(size.name, b.traffic) {
			continue
		}
		if err := b.liveOf(ctx, size.name, size.Size); err != nil {
			return fmt.Errorf("%s: %w", size.name, err)
		}
	}
	return nil
}

// liveOf measures sessions with one size of results.
func (b *bench) liveOf(ctx context.Context, name string, size conversation.Size) error {
	l := &load{name: name, shape: conversation.Claude, size: size, to: liveTurns*(400+2*size.Result) + size.System +
		size.Tools}
	tape, key := b.newTape(l)
	residences := make([]residence, 0, 1+len(b.policies))
	for i, policy := range append([]string{""}, b.policies...) {
		global := ""
		if policy != "" {
			global = "llm_cache {\n\t\tmemory 12GiB\n\t}"
		}
		t, err := startTarget(ctx, b.binary, filepath.Join(b.dir, fmt.Sprintf("%s live %d", name, i)), policy, global,
			b.upstream.addr)
		if err != nil {
			return err
		}
		defer t.stop()
		r := residence{target: t}
		if r.before, err = memoryOf(t.process.PID(), "VmRSS"); err != nil {
			return err
		}
		if err := fill(ctx, t, l, tape, key, b.sessions); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		if r.after, err = memoryOf(t.process.PID(), "VmRSS"); err != nil {
			return err
		}
		residences = append(residences, r)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(liveRest):
	}
	for _, r := range residences {
		if err := r.tell(ctx, name, b.sessions); err != nil {
			return fmt.Errorf("%s: %w", r.target.name, err)
		}
	}
	return nil
}

// residence is a target's memory, in bytes.
type residence struct {
	target        *target
	before, after int64 // without and with the sessions
}

// tell prints a target's memory at rest. It returns an error if sessions are missing.
func (r *residence) tell(ctx context.Context, name string, sessions int) error {
	rest, err := memoryOf(r.target.process.PID(), "VmRSS")
	if err != nil {
		return err
	}
	peak, err := memoryOf(r.target.process.PID(), "VmHWM")
	if err != nil {
		return err
	}
	if r.target.edits {
		stored, err := r.target.gauge(ctx, "caddy_llm_cache_sessions")
		if err != nil {
			return err
		}
		if stored < float64(sessions) {
			return fmt.Errorf("%w: %.0f of %d are held", errSessions, stored, sessions)
		}
	}
	row(name, r.target.name, mb(r.before), mb(r.after), mb(rest),
		fmt.Sprintf("%.1f", float64(rest-r.before)/1024/float64(sessions)), mb(peak))
	return nil
}

// fill begins every session one turn before its last, and continues it once.
func fill(ctx context.Context, t *target, l *load, tape *conversation.Tape, key string, sessions int) error {
	var next atomic.Int64
	return atOnce(t, connections, func(c *client, _ int) error {
		for n := next.Add(1); n <= int64(sessions) && ctx.Err() == nil; n = next.Add(1) {
			k := newTalk(c, l, tape, key, fmt.Sprintf("%s live %d", l.name, n))
			k.from, k.to, k.turns = liveTurns-1, liveTurns, liveTurns
			if err := errors.Join(k.next(), k.next()); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

func mb(bytes int64) string { return fmt.Sprintf("%.0f", float64(bytes)/(1<<20)) }
