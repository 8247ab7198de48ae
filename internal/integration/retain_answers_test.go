// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestRetainAnswers: what the model answers to a request that was made whole is what the
// client gets: errors, short and long, and streams as they are written.
func TestRetainAnswers(t *testing.T) {
	next := make(chan struct{})
	failure, status := "", http.StatusOK
	s := twoSites(t, newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		switch {
		case failure != "":
			w.Header().Set("X-Model", "here")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, failure)
		case strings.Contains(r.Header.Get("Accept"), "event-stream"):
			w.Header().Set("Content-Type", "text/event-stream")
			for _, e := range events {
				_, _ = io.WriteString(w, e)
				_ = http.NewResponseController(w).Flush()
				<-next
			}
		default:
			answerMessage(w, r, n)
		}
	}))
	s.expect("whole; cause=new", conversation(20, false))
	s.expect("delta", conversation(21, false))
	for _, test := range []struct {
		status  int
		failure string
	}{
		{http.StatusBadRequest, `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`},
		{http.StatusUnsupportedMediaType, "what is that?"},
		{http.StatusTooManyRequests, strings.Repeat("wait. ", 40_000)},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`},
	} {
		failure, status = test.failure, test.status
		before := len(s.model.requests())
		res := s.post("/v1/messages", conversation(22, false), "X-Api-Key", "a")
		if got := read(t, res); got != test.failure || res.StatusCode != test.status || res.Header.Get("X-Model") != "here" {
			t.Errorf("status %d, %d bytes of %d", res.StatusCode, len(got), len(test.failure))
		}
		if n := len(s.model.requests()) - before; n != 1 || s.model.last().body != conversation(22, false) {
			t.Errorf("the model was asked %d times", n)
		}
		if retained := res.Header.Get("X-Llm-Cache-Retained"); !strings.HasPrefix(retained, "delta") {
			t.Errorf("went as %q", retained)
		}
	}
	failure = ""
	s.expect("delta", conversation(22, false)) // what is refused is not gone on from, nor forgotten

	res := s.post("/v1/messages", conversation(23, true), "X-Api-Key", "a", "Accept", "text/event-stream")
	if retained := res.Header.Get("X-Llm-Cache-Retained"); !strings.HasPrefix(retained, "delta") {
		t.Errorf("went as %q", retained)
	}
	from := bufio.NewReader(res.Body)
	for _, e := range events {
		got := make([]byte, len(e))
		if _, err := io.ReadFull(from, got); err != nil || string(got) != e {
			t.Fatalf("%q, %v", got, err)
		}
		next <- struct{}{} // only then is the next one written
	}
	if rest, err := io.ReadAll(from); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}
