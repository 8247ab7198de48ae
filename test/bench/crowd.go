// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// crowded is the number of concurrent streams, each with its own connection.
	crowded = 200
	// crowdLasts is the duration of each stream.
	crowdLasts = 3 * time.Second
)

// crowdRates are rates of events a second and stream: about the maximum of two processors, and a
// rate with idle time, which makes delays meaningful.
var crowdRates = []int{500, 20}

// errCrowd says that streams lost events.
var errCrowd = errors.New("events were lost")

// crowd measures the cost of many concurrent streams. The model writes each event separately at its
// scheduled time, and catches up after delays until the time is over.
func (b *bench) crowd(ctx context.Context) error {
	t, err := startCaddy(ctx, b.binary, filepath.Join(b.dir, "crowd"), b.policies[0]+", expand",
		"llm_cache {\n\t\t"+fmt.Sprintf(expanding, b.policies[0])+"\n\t}", "", b.upstream.addr)
	if err != nil {
		return err
	}
	defer t.stop()
	t.edits = true
	if err := declares(ctx, b.upstream, t); err != nil {
		return err
	}
	targets := append(b.targets[:len(b.targets):len(b.targets)], t)
	heading(fmt.Sprintf("%d streams at once", crowded), "events/s of each", "Caddy", "events/s in all", "ratio to bare",
		"Caddy's processor for an event, µs", "ratio to bare", "delay p50, ms", "p99, ms")
	for _, rate := range crowdRates {
		lanes, delays, err := b.gather(ctx, rate, targets)
		if err != nil {
			return fmt.Errorf("%d events/s: %w", rate, err)
		}
		for j, t := range targets {
			ratio, more := "", ""
			if j > 0 {
				ratio, more = within(ratios(lanes[j].rates, lanes[0].rates)), within(ratios(lanes[j].costs, lanes[0].costs))
			}
			row(strconv.Itoa(rate), t.name, fmt.Sprintf("%.0f", median(lanes[j].rates)), ratio,
				fmt.Sprintf("%.1f", median(lanes[j].costs)), more,
				ms(quantile(delays[j], 0.5)), ms(quantile(delays[j], 0.99)))
		}
	}
	return nil
}

// gather measures several Caddys in turns under a crowd of streams. It returns the rates and costs
// of each, and the delays of events.
func (b *bench) gather(ctx context.Context, rate int, targets []*target) ([]lane, [][]time.Duration, error) {
	tape, _ := b.newTape(&loads[0])
	lanes, delays := make([]lane, len(targets)), make([][]time.Duration, len(targets))
	for round := range b.rounds + 1 {
		for j, t := range targets {
			var (
				p     pace
				late  []time.Duration
				begun = time.Now()
				err   error
			)
			p.cpu, err = t.cpu(func() error {
				late, err = streams(t, crowded, func(c *client, i int) ([]time.Duration, error) {
					body, length := tape.Body(fmt.Sprintf("crowd %d.%d.%d", rate, round, i), 2, true)
					resp, err := c.send("/v1/messages", fmt.Sprintf("%s: crowd\r\n%s: %d\r\n", headerStream, headerRate, rate),
						body, length)
					if err != nil {
						return nil, err
					}
					defer resp.Body.Close()
					return lateness(resp.Body)
				})
				p.took = time.Since(begun)
				return errors.Join(err, ctx.Err())
			})
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", t.name, err)
			}
			if wrote := crowdWrote.Swap(0); wrote != int64(len(late)) {
				return nil, nil, fmt.Errorf("%s: %w: %d of %d came", t.name, errCrowd, len(late), wrote)
			}
			if p.requests = int64(len(late)); round > 0 { // the first round warms up
				lanes[j].rates, lanes[j].costs = append(lanes[j].rates, p.rate()), append(lanes[j].costs, p.cost())
				delays[j] = append(delays[j], late...)
			}
		}
	}
	return lanes, delays, nil
}

// lateness reads a stream to its end and returns the age of each event on arrival.
func lateness(stream io.Reader) (delays []time.Duration, err error) {
	buffer := make([]byte, 16<<10)
	for kept := 0; ; {
		n, err := stream.Read(buffer[kept:])
		now := time.Now().UnixNano()
		rest := buffer[:kept+n]
		for {
			sent, behind, ok := nextSent(rest)
			if !ok {
				break
			}
			delays, rest = append(delays, time.Duration(now-sent)), behind
		}
		if errors.Is(err, io.EOF) {
			return delays, nil
		}
		if err != nil {
			return nil, fmt.Errorf("stream: %w", err)
		}
		// No incomplete mark with its time is longer than this.
		kept = copy(buffer, rest[max(0, len(rest)-len(clockedMark)-stamped):])
	}
}

// stamped is the length of the time in an event: nanoseconds, until the year 2286.
const stamped = 19

// nextSent returns the time of the next whole event, and the rest after it.
func nextSent(b []byte) (sent int64, rest []byte, ok bool) {
	_, rest, ok = bytes.Cut(b, []byte(clockedMark))
	if !ok || len(rest) < stamped {
		return 0, b, false
	}
	for _, digit := range rest[:stamped] {
		sent = 10*sent + int64(digit-'0')
	}
	return sent, rest[stamped:], true
}

// crowdWrote counts the events written by the model.
var crowdWrote atomic.Int64

// Pieces of a crowd's streams.
const (
	crowdStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\"," +
		"\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":9," +
		"\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0," +
		"\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
	crowdBefore = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0," +
		"\"delta\":{\"type\":\"text_delta\"," + clockedMark
	crowdBehind = " word by word\"}}\n\n"
	crowdEnd    = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"," +
		"\"stop_sequence\":null},\"usage\":{\"output_tokens\":200}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

// crowdPhase staggers the streams' events evenly.
var crowdPhase atomic.Int64

// crowdStream writes a stream directly to the connection, one call for each event.
func crowdStream(w http.ResponseWriter, r *http.Request) {
	rate, err := strconv.Atoi(r.Header.Get(headerRate))
	if err != nil || rate < 1 {
		http.Error(w, "no "+headerRate, http.StatusBadRequest)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn,
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\nConnection: "+
			"close\r\n\r\n%x\r\n%s\r\n", len(crowdStart), crowdStart); err != nil {
		return
	}
	event := fmt.Appendf(nil, "%x\r\n%s%0*d%s\r\n", len(crowdBefore)+stamped+len(crowdBehind), crowdBefore, stamped, 0,
		crowdBehind)
	at := bytes.Index(event, []byte(clockedMark)) + len(clockedMark)
	gap := time.Second / time.Duration(rate)
	start := time.Now()
	due := start.Add(gap * time.Duration(crowdPhase.Add(1)%crowded) / crowded)
	for ; due.Sub(start) < crowdLasts; due = due.Add(gap) {
		time.Sleep(time.Until(due))
		now := time.Now()
		if now.Sub(start) >= crowdLasts {
			break
		}
		strconv.AppendInt(event[:at], now.UnixNano(), 10)
		if _, err := conn.Write(event); err != nil {
			return
		}
		crowdWrote.Add(1)
	}
	_, _ = fmt.Fprintf(conn, "%x\r\n%s\r\n0\r\n\r\n", len(crowdEnd), crowdEnd)
}
