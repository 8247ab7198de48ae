// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// TestLateTransport: a transport may go on sending after the upstream has answered. It sends the bytes of its own
// request or fails, also after later requests have reused the memory.
func TestLateTransport(t *testing.T) {
	h := attached(t, pipeline.Options{Policy: pipeline.Eager})
	var sending sync.WaitGroup
	var wrong, edited atomic.Int32
	var client []byte // the request as it came
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		copied, err := r.GetBody()
		if err != nil {
			return err
		}
		want, err := io.ReadAll(copied)
		if err != nil {
			return err
		}
		if int64(len(want)) != r.ContentLength {
			wrong.Add(1)
		}
		if !bytes.Equal(want, client) {
			edited.Add(1)
		}
		body := r.Body
		sending.Go(func() {
			defer body.Close()
			step := make([]byte, 999)
			for len(want) > 0 {
				n, err := body.Read(step)
				if n > len(want) || !bytes.Equal(step[:n], want[:n]) {
					wrong.Add(1)
					return
				}
				if want = want[n:]; err != nil {
					return
				}
			}
		})
		return answering(answerBytes)(w, &http.Request{Body: http.NoBody})
	})
	for i := range 4 {
		for _, client = range growing(20<<10, 12) {
			if err := h.ServeHTTP(&sink{http.Header{}}, request(client, fmt.Sprint(i)), next); err != nil {
				t.Fatal(err)
			}
		}
	}
	sending.Wait()
	if wrong.Load() > 0 || edited.Load() == 0 {
		t.Errorf("%d of 48 requests were sent with other bytes, %d had an edit", wrong.Load(), edited.Load())
	}
}

// What is remembered of a conversation is recycled while others still read it,
// or go on with it at the same time: each gets through what it sent. The race
// detector sees who is too early.
func TestRecycledUnderLoad(t *testing.T) {
	const sessions, twins, steps = 4, 3, 12
	h := attached(t, pipeline.Options{Policy: pipeline.Observe})
	var wg sync.WaitGroup
	var wrong atomic.Int32
	for s := range sessions {
		bodies := growing(4<<10+s<<10, steps)
		for range twins {
			wg.Go(func() {
				for _, body := range bodies {
					next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
						if got, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(got, body) {
							wrong.Add(1)
						}
						return endpoint.ServeHTTP(w, r)
					})
					if err := h.ServeHTTP(&sink{http.Header{}}, request(body, fmt.Sprint(s)), next); err != nil {
						wrong.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d requests did not get through as they came", n)
	}
	for s := range sessions {
		bodies := growing(4<<10+s<<10, steps+1)
		x := prepared(t, h, request(bodies[steps], fmt.Sprint(s)), bodies[steps])
		cold := prepared(t, attached(t, pipeline.Options{Policy: pipeline.Observe}), request(bodies[steps], ""),
			bodies[steps])
		if x.View.Recalled == 0 || len(x.View.Blocks) != len(cold.View.Blocks) {
			t.Errorf("session %d: %d of %d blocks recalled, %d without recalling", s, x.View.Recalled, len(x.View.Blocks),
				len(cold.View.Blocks))
		}
		for i := range x.View.Blocks {
			if x.View.Blocks[i] != cold.View.Blocks[i] {
				t.Errorf("session %d: block %d is remembered wrongly", s, i)
			}
		}
		h.site.store.Release(x.session)
	}
}
