// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/conversation"
)

// A configuration is loaded every second for half a minute, each time a different one and sometimes
// a broken one. No session and no request that reaches Caddy is lost: streams that began under the
// old configuration end under the new one.
func TestReloadUnderLoad(t *testing.T) {
	const (
		clients = 8
		reloads = 30
	)
	s := startStack(t, setup{model: "pace 4ms", unwatched: true})
	tape := conversation.NewTape(conversation.Claude, conversation.Agent, 100<<10)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		sent = map[string]int{} // requests by session
	)
	for i := range clients {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				// A conversation grows to the end of the tape, then another begins.
				name, turns := fmt.Sprintf("client-%d-%d", i, n/(tape.Turns()+1)), n%(tape.Turns()+1)
				id, err := s.ask(t.Context(), tape, name, turns)
				if err != nil {
					t.Errorf("%s, turn %d: %v", name, turns, err)
					return
				}
				mu.Lock()
				sent[id]++
				mu.Unlock()
			}
		})
	}
	for n := range reloads {
		time.Sleep(time.Second)
		// The loaded configuration differs from the running one, and the shared state does not.
		config := strings.Replace(s.config, "llm_cache {",
			fmt.Sprintf("header X-Generation %d\n\tllm_cache {\n\t\tprune {\n\t\t\tafter %d\n\t\t}", n, 3+n%2), 1)
		err := s.Reload(t.Context(), config)
		if err != nil {
			t.Errorf("reload %d: %v", n, err)
		}
		if n%10 == 5 {
			// Provisioned half way, refused, and cleaned up.
			broken := strings.Replace(config, "reverse_proxy",
				"reverse_proxy {\n\t\ttransport http {\n\t\t\ttls_trust_pool file /does/not/exist\n\t\t}\n\t}\n\treverse_proxy", 1)
			if err := s.Reload(t.Context(), broken); err == nil {
				t.Errorf("reload %d: a broken configuration was loaded", n)
			}
		}
	}
	stop()
	wg.Wait()
	// A replaced listener may accept a connection after its configuration has ended.
	newest := fmt.Sprint(reloads - 1)
	for n, generation := 0, ""; generation != newest; n++ {
		if n == 100 {
			t.Fatalf("requests still meet generation %q, want %q", generation, newest)
		}
		answer, err := s.asked(t.Context(), tape, fmt.Sprint("last-", n), 0)
		if err != nil {
			t.Fatal(err)
		}
		sent[answer.Get(sessionHeader)]++
		generation = answer.Get("X-Generation")
	}

	sessions, entries := s.wait(t, len(sent))
	s.clean(t)
	counted := map[string]int{}
	for i := range sessions {
		counted[sessions[i].ID] = sessions[i].requests()
	}
	for id := range sent {
		if _, again := s.repeated.Load(id); counted[id] != sent[id] && (!again || counted[id] < sent[id]) {
			t.Errorf("session %q counts %d requests, sent were %d", id, counted[id], sent[id])
		}
	}
	t.Logf("%d requests in %d sessions over %d reloads", len(entries), len(sessions), reloads)
}

// fresh opens a connection for every request. A replaced server closes a kept-alive connection
// after the stream in flight, and a client that writes at that moment fails regardless of the
// handlers.
var fresh = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// ask sends the request of a conversation after that many turns, reads the stream to its end and
// returns the id of the session.
func (s *stack) ask(ctx context.Context, tape *conversation.Tape, name string, turns int) (id string, err error) {
	answer, err := s.asked(ctx, tape, name, turns)
	return answer.Get(sessionHeader), err
}

const sessionHeader = "X-Llm-Cache-Session"

// asked is ask that returns the headers of the response. Like the SDKs it retries if the connection
// breaks before a response: the kernel resets unaccepted connections when a listener is replaced,
// unnoticed by handlers. A client that is still writing may get an error of a closed connection,
// because its own reader met the reset and closed it.
func (s *stack) asked(ctx context.Context, tape *conversation.Tape, name string, turns int) (http.Header, error) {
	for try := range 3 {
		pieces, length := tape.Body(name, turns, true)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+conversation.Claude.Path(), &pieces)
		if err != nil {
			return nil, err
		}
		req.ContentLength = int64(length)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Api-Key", "sk-test")
		req.Header.Set("X-Session-Id", name)
		req.Header.Set("X-Llm-Cache-Headers", "full")
		resp, err := fresh.Do(req)
		if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, fmt.Errorf("after %d bytes: %w", len(b), err)
		}
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: %s", resp.Status, b)
		}
		if !bytes.Contains(b, []byte("message_stop")) {
			return nil, errors.New("the stream has no end")
		}
		if try > 0 {
			s.repeated.Store(resp.Header.Get(sessionHeader), true)
		}
		return resp.Header, nil
	}
	return nil, errors.New("three connections in a row were reset")
}
