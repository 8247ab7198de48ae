// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// While a request waits for its slot and for the first token, the client sees
// that it is at work; the session learns of the answer as of any other.
func TestSilenceInTheQueue(t *testing.T) {
	t.Parallel()
	b := newSlowBox(t)
	p := start(t, fmt.Sprintf(`llm_cache {
	upstream ollama {
		format anthropic
	}
	queue {
		slots 1
	}
	heartbeat {
		every 1s
		open  1s
	}
}
reverse_proxy %s`, strings.TrimPrefix(b.URL, "http://")))
	stream := strings.Replace(conversation(1, true), `{`, `{"tools":[{"name":"Read","input_schema":{"type":"object"}}],`,
		1)
	// One is with the box, one in the queue; both get an answer before either
	// of them has a token.
	var bodies [2]*bufio.Reader
	for i := range bodies {
		res := p.post("/v1/messages", stream, "X-Session-Id", fmt.Sprint(i))
		bodies[i] = bufio.NewReader(res.Body)
		if line, err := bodies[i].ReadString('\n'); err != nil || line != "event: ping\n" || res.StatusCode != http.StatusOK {
			t.Fatalf("request %d begins with %q, %v, %s", i, line, err, res.Status)
		}
	}
	for i := range bodies {
		b.free <- struct{}{}
		rest, err := io.ReadAll(bodies[i])
		if err != nil || !strings.HasSuffix(string(rest), strings.Join(events, "")) {
			t.Errorf("request %d ends with %q, %v", i, rest, err)
		}
	}
	done := 0
	for _, s := range p.sessions() {
		done += s.requests()
	}
	if done != 2 {
		t.Errorf("%d requests committed, want 2", done)
	}
}
