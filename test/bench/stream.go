// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// folding folds all results before the last two requests.
const folding = `llm_cache {
		policy eager
		compact_tool_results off
		zones {
			frozen 0
			hot 1
			min_messages 0
		}
		prune {
			after 1
		}
	}`

// stream measures the delay of an event from the upstream's write to the client's read, in one
// stream and in several concurrent ones. It measures texts, and calls. Their arguments are
// searched for stubs, because the prompt contains some.
func (b *bench) stream(ctx context.Context) error {
	heading("Delay of one streamed event, in ms", "streams", "of", "Caddy", "p50", "p99", "longest")
	tape, _ := b.newTape(&loads[0])
	text := func(name string, turns int) (net.Buffers, int) { return tape.Body(name, turns, true) }
	if err := b.clock(ctx, "text", headerClocked, text, b.targets); err != nil {
		return err
	}
	t, err := startCaddy(ctx, b.binary, filepath.Join(b.dir, "folding"), "folds", folding, "", b.upstream.addr)
	if err != nil {
		return err
	}
	defer t.stop()
	t.edits = true
	if err := b.clock(ctx, "a call", headerClockedCall, reads, append(b.targets[:len(b.targets):len(b.targets)],
		t)); err != nil {
		return err
	}
	if !bytes.Contains(b.upstream.arrived().body, []byte("[[llm_cache:folded")) {
		return errors.New("stream: nothing was folded")
	}
	return nil
}

// reads returns a conversation with unrelated results.
func reads(name string, turns int) (net.Buffers, int) {
	b := fmt.Appendf(nil,
		`{"model":"claude-opus-4-6","max_tokens":1000,"stream":true,"system":"You are an agent.","tools":[{"name":"Read",`+
			`"input_schema":{"type":"object"}},`+
			`{"name":"Write","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":%q}`, name)
	for i := range turns {
		b = fmt.Appendf(b,
			`,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_%d","name":"Read",`+
				`"input":{"file_path":"/src/file%d.go"}}]}`, i, i)
		b = fmt.Appendf(b, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":%q}]}`, i,
			strings.Repeat(fmt.Sprintf("row %d of that file\n", i), 100))
	}
	b = append(b, "]}"...)
	return net.Buffers{b}, len(b)
}

// clockedTurns is the number of turns before the measured stream.
const clockedTurns = 6

// clock measures streams of one kind after the given conversations.
func (b *bench) clock(ctx context.Context, name, kind string, conversation func(name string, turns int) (net.Buffers,
	int), targets []*target,
) error {
	for _, at := range []int{1, connections} {
		delays := make([][]time.Duration, len(targets))
		for round := range b.rounds + 1 {
			for j, t := range targets {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				d, err := streams(t, at, func(c *client, i int) ([]time.Duration, error) {
					name := fmt.Sprintf("%s %d.%d.%d", kind, at, round, i)
					body, length := conversation(name, clockedTurns-1) // the first request is never folded
					if _, err := clocked(c, kind, body, length); err != nil {
						return nil, err
					}
					body, length = conversation(name, clockedTurns)
					return clocked(c, kind, body, length)
				})
				if err != nil {
					return fmt.Errorf("%s: %d streams: %s: %w", name, at, t.name, err)
				}
				if round > 0 { // the first round warms up
					delays[j] = append(delays[j], d...)
				}
			}
		}
		for j, t := range targets {
			row(strconv.Itoa(at), name, t.name, ms(quantile(delays[j], 0.5)), ms(quantile(delays[j], 0.99)),
				ms(quantile(delays[j], 1)))
		}
	}
	return nil
}

// streams reads n concurrent streams, each over its own connection.
func streams(t *target, n int, read func(c *client, i int) ([]time.Duration, error)) ([]time.Duration, error) {
	delays := make([][]time.Duration, n)
	err := atOnce(t, n, func(c *client, i int) (err error) {
		delays[i], err = read(c, i)
		return err
	})
	return slices.Concat(delays...), err
}

// clocked requests a stream of events with timestamps, and returns the age of each on arrival.
func clocked(c *client, kind string, body net.Buffers, length int) ([]time.Duration, error) {
	resp, err := c.send("/v1/messages", headerStream+": "+kind+"\r\n"+headerProof+": 1\r\n", body, length)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var delays []time.Duration
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		_, rest, found := bytes.Cut(lines.Bytes(), []byte("sent at "))
		if !found {
			continue
		}
		now := time.Now()
		digits, _, _ := bytes.Cut(rest, []byte(" "))
		sent, err := strconv.ParseInt(string(digits), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("event: %w", err)
		}
		delays = append(delays, now.Sub(time.Unix(0, sent)))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("stream: %w", err)
	}
	if len(delays) != clockedEvents {
		return nil, fmt.Errorf("stream: %d of %d events came", len(delays), clockedEvents)
	}
	return delays, nil
}
