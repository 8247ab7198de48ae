// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSentToAnother: Caddy's own means of sending a request to another upstream find its body, edited
// and translated as well as in the client's own bytes.
func TestSentToAnother(t *testing.T) {
	t.Parallel()
	busy := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		time.Sleep(50 * time.Millisecond) // the transport closes a body after it was read, as another one begins
		w.WriteHeader(529)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`)
	})
	broken := newUpstream(t, func(http.ResponseWriter, *http.Request, int) {
		time.Sleep(50 * time.Millisecond)
		panic(http.ErrAbortHandler)
	})
	for _, cache := range []string{
		"llm_cache", "llm_cache {\npolicy eager\n}",
		"llm_cache {\nupstream anthropic {\nmodel * other\n}\n}",
	} {
		for name, proxy := range map[string]string{
			"handle_response": "reverse_proxy %[1]s {\n@busy status 529\nhandle_response @busy {\nreverse_proxy %[3]s\n}\n}",
			"lb_retries": "reverse_proxy %[2]s %[3]s {\nlb_policy first\nlb_retries 2\nfail_duration " +
				"10s\nlb_retry_match {\nmethod POST\n}\n}",
		} {
			good := newUpstream(t, answerMessage)
			addr := func(u *upstream) string { return u.Listener.Addr().String() }
			p := start(t, cache+"\n"+fmt.Sprintf(proxy, addr(busy), addr(broken), addr(good)))
			body := conversation(6, false)
			res := p.post("/v1/messages", body)
			if text := read(t, res); res.StatusCode != http.StatusOK || !strings.Contains(text, `"message"`) {
				t.Errorf("%s, %s: got status %d, %.200s, want the answer of the other upstream", cache, name, res.StatusCode, text)
				continue
			}
			if got := good.last().body; len(got) < len(body)/2 {
				t.Errorf("%s, %s: the other upstream got %d bytes of %d", cache, name, len(got), len(body))
			}
		}
	}
}
