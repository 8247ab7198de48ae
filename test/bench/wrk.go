// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// wrkTurn is the duration of one driver's turn.
	wrkTurn = time.Second
	// wrkTurns is the number of turns in a round.
	wrkTurns = 2
	// wrkAt is the turn of the repeated request, at the least: its conversation has at least one
	// answer.
	wrkAt = 1
)

var (
	errWrk      = errors.New("wrk is not installed (Debian package wrk)")
	errWrkLoad  = errors.New("wrk had answers that are none")
	errWrkPrint = errors.New("not what wrk prints")
)

// wrk measures throughput with wrk and with this driver, with one repeated body, and the difference
// of their ratios to bare.
func (b *bench) wrk(ctx context.Context) error {
	path, err := exec.LookPath("wrk")
	if err != nil {
		return fmt.Errorf("%w: %w", errWrk, err)
	}
	heading(fmt.Sprintf("Throughput by two drivers, %d connections, one body", connections), "traffic", "Caddy",
		"requests/s, wrk", "ratio to bare, wrk", "requests/s, bench", "ratio to bare, bench", "apart, points")
	for i := range b.loads {
		l := &b.loads[i]
		post, err := b.newPost(l, filepath.Join(b.dir, fmt.Sprint("wrk ", i)))
		if err != nil {
			return err
		}
		theirs, ours := make([][]float64, len(b.targets)), make([][]float64, len(b.targets))
		for round := range b.rounds + 1 {
			foreign, bench := make([]float64, len(b.targets)), make([]float64, len(b.targets))
			for range wrkTurns {
				for j, t := range b.targets {
					rate, err := post.byWrk(ctx, path, t)
					if err != nil {
						return fmt.Errorf("%s: %s: wrk: %w", l.name, t.name, err)
					}
					foreign[j] += rate / wrkTurns
					if rate, err = post.byBench(ctx, t); err != nil {
						return fmt.Errorf("%s: %s: %w", l.name, t.name, err)
					}
					bench[j] += rate / wrkTurns
				}
			}
			if round > 0 { // the first round warms up
				for j := range b.targets {
					theirs[j], ours[j] = append(theirs[j], foreign[j]), append(ours[j], bench[j])
				}
			}
		}
		for j, t := range b.targets {
			foreign, bench, apart := "", "", ""
			if j > 0 {
				a, b := ratios(theirs[j], theirs[0]), ratios(ours[j], ours[0])
				foreign, bench, apart = within(a), within(b), spread("%+.1f", points(a, b))
			}
			row(l.name, t.name, fmt.Sprintf("%.0f", median(theirs[j])), foreign, fmt.Sprintf("%.0f", median(ours[j])),
				bench, apart)
		}
	}
	return nil
}

// points returns a - b in percentage points, round by round.
func points(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = 100 * (a[i] - b[i])
	}
	return out
}

// post is one request, and the files for wrk to send it.
type post struct {
	path   string
	script string
	names  []string // of headers
	values []string
	body   []byte
}

// newPost returns a request from the middle of a load.
func (b *bench) newPost(l *load, dir string) (*post, error) {
	tape, key := b.newTape(l)
	turn := max(wrkAt, (tape.TurnsOf(l.from)+tape.TurnsOf(l.to))/2)
	pieces, length := tape.Body(l.name+", one body", turn, true)
	p := &post{
		path:   l.shape.Path(),
		script: filepath.Join(dir, "post.lua"),
		names:  []string{headerTape, headerTurns, headerLength, headerStream},
		values: []string{key, strconv.Itoa(turn), strconv.Itoa(length), "true"},
		body:   bytes.Join(pieces, nil),
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	body := filepath.Join(dir, "body.json")
	if err := os.WriteFile(body, p.body, 0o600); err != nil {
		return nil, err
	}
	return p, os.WriteFile(p.script, []byte(p.lua(body)), 0o600)
}

// lua returns a script for wrk that sends the contents of a file.
func (p *post) lua(body string) string {
	var s strings.Builder
	fmt.Fprintf(&s,
		"local file = assert(io.open(%q, \"rb\"))\nwrk.method = \"POST\"\nwrk.body = file:read(\"*a\")\nfile:close()\n", body)
	header := func(name, value string) { fmt.Fprintf(&s, "wrk.headers[%q] = %q\n", name, value) }
	for i, name := range p.names {
		header(name, p.values[i])
	}
	for name, value := range clientHeaders {
		header(name, value)
	}
	return s.String()
}

// byWrk returns the requests a second of wrk.
func (p *post) byWrk(ctx context.Context, wrk string, t *target) (float64, error) {
	out, err := exec.CommandContext(ctx, wrk, "-t1", "-c"+strconv.Itoa(connections),
		fmt.Sprintf("-d%ds", int(wrkTurn.Seconds())),
		"-s", p.script, "http://"+t.addr+p.path).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	return wrkRate(string(out))
}

var (
	wrkPrinted = regexp.MustCompile(`(?m)^Requests/sec: +([0-9.]+)$`)
	wrkFailed  = regexp.MustCompile(`(?m)^ *(Non-2xx|Socket errors).*$`)
)

// wrkRate parses the requests a second in wrk's output.
func wrkRate(out string) (float64, error) {
	if failed := wrkFailed.FindString(out); failed != "" {
		return 0, fmt.Errorf("%w: %s", errWrkLoad, strings.TrimSpace(failed))
	}
	found := wrkPrinted.FindStringSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("%w: %q", errWrkPrint, out)
	}
	return strconv.ParseFloat(found[1], 64)
}

// byBench returns the requests a second of this program.
func (p *post) byBench(ctx context.Context, t *target) (float64, error) {
	var (
		count   atomic.Int64
		headers strings.Builder
	)
	for i, name := range p.names {
		fmt.Fprintf(&headers, "%s: %s\r\n", name, p.values[i])
	}
	begun := time.Now()
	err := atOnce(t, connections, func(c *client, _ int) error {
		for time.Since(begun) < wrkTurn && ctx.Err() == nil {
			if err := c.exchange(p.path, headers.String(), net.Buffers{p.body}, len(p.body)); err != nil {
				return err
			}
			count.Add(1)
		}
		return ctx.Err()
	})
	return float64(count.Load()) / time.Since(begun).Seconds(), err
}
