// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/conversation"
)

const (
	// profiled is the duration of a profile.
	profiled = 8 * time.Second
	// profiledRounds bounds a profile, in rounds of the load's requests.
	profiledRounds = 10
)

// part is a share of a request's cost, identified by frames of its stacks. The first part with a
// matching frame counts.
type part struct {
	name   string
	frames []string
}

var parts = []part{
	{"garbage collection", []string{
		"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep",
		"runtime.bgscavenge", "runtime.gcStart",
	}},
	{"headers of the answer", []string{"exchange).stamp"}},
	{"metrics and day's account", []string{"prometheus.", "exchange).countTurn", "app.Count"}},
	{"audit", []string{"exchange).open", "exchange).report", "/audit."}},
	{"commit", []string{"pipeline.(*Transaction).Commit", "pipeline.(*Transaction).Join"}},
	{"answer read", []string{"wire.(*Decoder)"}},
	{"body read", []string{"handler.(*arrival)"}},
	{"parse and hash", []string{"handler.(*site).parse"}},
	{"planner", []string{"/planner."}},
	{"pipeline", []string{"pipeline.(*Pipeline).Begin"}},
	{"session", []string{"handler.(*site).sessionKey", "state.(*State)", "sessioncache."}},
	{"chain", []string{"handler.(*passage).through"}},
	{"request rewritten", []string{"httpx.(*Payload).Attach"}},
	{"reverse_proxy", []string{"reverseproxy.", "http.(*Transport)", "http.(*persistConn)"}},
	{"the handler's own", []string{"caddy-llm-cache"}},
	{"server", []string{"http.(*conn).serve", "http.(*connReader)", "http.(*Server)"}},
	{"scheduler and rest", []string{""}},
}

// profile shows the processor time of a known request by parts, from profiles of each Caddy under
// the same load. Samples miss sleeping system calls. A part below reverse_proxy's frames counts for
// the first part that matches.
func (b *bench) profile(ctx context.Context) error {
	if err := checkParts(ctx, b.binary); err != nil {
		return err
	}
	heads := append(make([]string, 0, 2+len(b.targets)), "traffic", "part")
	for _, t := range b.targets {
		heads = append(heads, t.name+": µs")
	}
	heading("Where the time goes", heads...)
	for i := range b.loads {
		spent := make([]map[string]time.Duration, len(b.targets))
		tape, key := b.newTape(&b.loads[i])
		for j, t := range b.targets {
			c, err := dial(t)
			if err != nil {
				return err
			}
			defer c.close()
			if spent[j], err = b.profileOf(ctx, c, &b.loads[i], tape, key); err != nil {
				return fmt.Errorf("%s: %s: %w", b.loads[i].name, t.name, err)
			}
		}
		for _, p := range append(parts, part{name: "all"}) {
			cells := []string{b.loads[i].name, p.name}
			for _, s := range spent {
				cells = append(cells, fmt.Sprintf("%.1f", float64(s[p.name])/float64(time.Microsecond)))
			}
			row(cells...)
		}
	}
	return nil
}

// checkParts returns an error if a frame of the parts matches no function of the binary: the time
// of a renamed function would silently go to another part.
func checkParts(ctx context.Context, binary string) error {
	symbols, err := exec.CommandContext(ctx, "go", "tool", "nm", binary).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go tool nm %s: %w\n%s", binary, err, symbols)
	}
	for _, p := range parts {
		for _, f := range p.frames {
			if !bytes.Contains(symbols, []byte(f)) {
				return fmt.Errorf("%s: no function is named %q any more", p.name, f)
			}
		}
	}
	return nil
}

// profileOf returns the times of the parts of one known request. It begins the conversations
// before, enough of them for the duration of the profile.
func (b *bench) profileOf(
	ctx context.Context, c *client, l *load, tape *conversation.Tape, key string,
) (map[string]time.Duration, error) {
	talks := make([]*talk, 1+profiledRounds*l.requests/(tape.TurnsOf(l.to)-tape.TurnsOf(l.from)))
	for i := range talks {
		talks[i] = newTalk(c, l, tape, key, fmt.Sprintf("%s profiled %d", l.name, i))
		if err := talks[i].next(); err != nil {
			return nil, err
		}
	}
	file, done := filepath.Join(b.dir, "cpu.pprof"), make(chan error, 1)
	go func() { done <- fetchProfile(ctx, c.target.process.Admin, file) }()
	time.Sleep(profiled / 40) // until the profile runs
	requests := 0
	for _, k := range talks {
		for !k.begins() && len(done) == 0 {
			if err := k.next(); err != nil {
				return nil, err
			}
			requests++
		}
	}
	if err := <-done; err != nil {
		return nil, err
	}
	if b.profiles != "" {
		name := strings.NewReplacer(" ", "_", ",", "").Replace(l.name + " " + c.target.name + ".pprof")
		if err := copyFile(file, filepath.Join(b.profiles, name)); err != nil {
			return nil, err
		}
	}
	return split(ctx, file, requests)
}

func fetchProfile(ctx context.Context, admin, file string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d",
		admin, int(profiled.Seconds())), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s", resp.Status)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return os.WriteFile(file, b, 0o600)
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// split sums up a profile by parts, per request.
func split(ctx context.Context, file string, requests int) (map[string]time.Duration, error) {
	out, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", "-unit", "ns", file).Output()
	if err != nil {
		return nil, fmt.Errorf("go tool pprof: %w", err)
	}
	sums := map[string]time.Duration{}
	var value time.Duration
	var stack []string
	flush := func() {
		if len(stack) > 0 {
			sums[partOf(stack)] += value
			sums["all"] += value
		}
		stack = stack[:0]
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "-----------+") {
			flush()
			continue
		}
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		switch d, err := time.ParseDuration(fields[0]); {
		case err == nil && len(fields) > 1: // the innermost frame
			value, stack = d, append(stack[:0], fields[1])
		case strings.HasPrefix(line, " "):
			stack = append(stack, fields[0])
		}
	}
	flush()
	for name := range sums {
		sums[name] /= time.Duration(max(requests, 1))
	}
	return sums, cmp.Or(lines.Err(), ctx.Err())
}

// partOf returns the part of a stack, which begins with its innermost frame.
func partOf(stack []string) string {
	for _, p := range parts {
		for _, f := range p.frames {
			if slices.ContainsFunc(stack, func(frame string) bool { return strings.Contains(frame, f) }) {
				return p.name
			}
		}
	}
	return ""
}
