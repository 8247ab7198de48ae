// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/conversation"
)

// client is one kept-alive connection to a target. It writes bodies from their pieces, so that the
// driver uses little processor time itself.
type client struct {
	target *target
	conn   net.Conn
	in     *bufio.Reader
}

func dial(t *target) (*client, error) {
	conn, err := net.Dial("tcp", t.addr)
	if err != nil {
		return nil, err
	}
	return &client{target: t, conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// clientHeaders are in each request.
var clientHeaders = map[string]string{
	"Content-Type": "application/json", "X-Api-Key": "bench",
	"Anthropic-Version": "2023-06-01",
}

var clientLines = func() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(clientHeaders)) {
		fmt.Fprintf(&b, "%s: %s\r\n", name, clientHeaders[name])
	}
	return b.String()
}()

// send posts a body and returns the response with its body unread. headers are lines ending in
// CRLF.
func (c *client) send(path, headers string, body net.Buffers, length int) (*http.Response, error) {
	head := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n%s\r\n", path, c.target.addr,
		clientLines, length, headers)
	pieces := append(net.Buffers{head}, body...)
	if _, err := pieces.WriteTo(c.conn); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		return nil, fmt.Errorf("answer: %s: %s", resp.Status, b)
	}
	if c.target.edits == (resp.Header.Get("X-Llm-Cache") == "") {
		return nil, fmt.Errorf("answer: %s: llm_cache had its hands on it: %t", c.target.name, !c.target.edits)
	}
	return resp, nil
}

// exchange posts a body and reads the whole response.
func (c *client) exchange(path, headers string, body net.Buffers, length int) error {
	resp, err := c.send(path, headers, body, length)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

// talk runs one conversation after another over a client.
type talk struct {
	client *client
	load   *load
	tape   *conversation.Tape
	key    string // the tape's key at the upstream
	name   string // name of the talk
	count  int    // number of conversations begun
	turns  int
	from   int
	to     int
}

func (b *bench) newTape(l *load) (*conversation.Tape, string) {
	t := conversation.NewTape(l.shape, l.size, l.to)
	return t, b.upstream.add(t, l.shape)
}

func newTalk(c *client, l *load, t *conversation.Tape, key, name string) *talk {
	k := &talk{client: c, load: l, tape: t, key: key, name: name, from: t.TurnsOf(l.from), to: t.TurnsOf(l.to)}
	k.turns = k.to // the first request begins a conversation
	return k
}

// begins reports whether the next request begins a conversation.
func (k *talk) begins() bool { return k.turns >= k.to }

// next sends the next request and reads the whole response.
func (k *talk) next() error {
	if k.begins() {
		k.count++
		k.turns = k.from
	} else {
		k.turns++
	}
	body, length := k.tape.Body(fmt.Sprintf("%s-%d", k.name, k.count), k.turns, true)
	headers := fmt.Sprintf("%s: %s\r\n%s: %d\r\n%s: %d\r\n%s: true\r\n", headerTape, k.key, headerTurns, k.turns,
		headerLength, length, headerStream)
	return k.client.exchange(k.load.shape.Path(), headers, body, length)
}

// atOnce runs do for n clients of a target concurrently, each with its own connection.
func atOnce(t *target, n int, do func(c *client, i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			c, err := dial(t)
			if err != nil {
				errs[i] = err
				return
			}
			defer c.close()
			errs[i] = do(c, i)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
