// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"
)

// stream measures how long an event of a stream takes from the upstream's
// write to the client's read, in one stream alone and in several at once.
func (b *bench) stream(ctx context.Context) error {
	heading("Delay of one streamed event, in ms", "streams", "Caddy", "p50", "p99", "longest")
	tape, _ := b.newTape(&loads[0])
	for _, at := range []int{1, connections} {
		delays := make([][]time.Duration, len(b.targets))
		for round := range b.rounds + 1 {
			for j, t := range b.targets {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				d, err := streams(t, at, func(c *client, i int) ([]time.Duration, error) {
					body, length := tape.Body(fmt.Sprintf("stream %d.%d.%d", at, round, i), 2, true)
					return clocked(c, body, length)
				})
				if err != nil {
					return fmt.Errorf("%d streams: %s: %w", at, t.name, err)
				}
				if round > 0 { // the first warms up
					delays[j] = append(delays[j], d...)
				}
			}
		}
		for j, t := range b.targets {
			row(strconv.Itoa(at), t.name, ms(quantile(delays[j], 0.5)), ms(quantile(delays[j], 0.99)), ms(quantile(delays[j], 1)))
		}
	}
	return nil
}

// streams reads n streams at once, each over a connection of its own.
func streams(t *target, n int, read func(c *client, i int) ([]time.Duration, error)) ([]time.Duration, error) {
	delays := make([][]time.Duration, n)
	err := atOnce(t, n, func(c *client, i int) (err error) {
		delays[i], err = read(c, i)
		return err
	})
	return slices.Concat(delays...), err
}

// clocked asks for a stream whose events tell when they were sent and returns
// how old each was when it came.
func clocked(c *client, body net.Buffers, length int) ([]time.Duration, error) {
	resp, err := c.send("/v1/messages", headerStream+": clocked\r\n", body, length)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var delays []time.Duration
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		_, rest, found := bytes.Cut(lines.Bytes(), []byte(clockedMark))
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
