// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestAbort: where the handlers behind close the connection, or fall short of the
// length that they have given, the client sees what it would see of bare Caddy.
func TestAbort(t *testing.T) {
	t.Parallel()
	cut := "header Content-Type application/json\n header Content-Length 1000\n respond `{\"id\":`"
	for name, site := range map[string]string{
		"native":     "llm_cache",
		"edited":     "llm_cache {\n policy eager\n}",
		"expand":     "llm_cache {\n" + eagerly + "prune {\n after 1\n }\n}",
		"translated": "llm_cache {\n upstream {\n format openai_chat\n }\n}",
		"box":        "llm_cache {\n upstream ollama\n}",
		"held":       "llm_cache {\n buffer_tool_calls on\n}",
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, "route {\n "+site+"\n abort\n}")
			for _, stream := range []bool{true, false} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.addr+"/v1/messages",
					strings.NewReader(conversation(4, stream)))
				if err != nil {
					t.Fatal(err)
				}
				if res, err := p.client.Do(req); err == nil {
					t.Errorf("stream %t: status %d in place of a closed connection", stream, res.StatusCode)
					_ = res.Body.Close()
				}
			}
			p.reload("route {\n " + site + "\n " + cut + "\n}")
			res := p.post("/v1/messages", conversation(4, false))
			body, err := io.ReadAll(res.Body)
			if name == "translated" || name == "box" {
				if res.StatusCode != http.StatusBadGateway || !isErrorOf("anthropic", string(body)) {
					t.Errorf("status %d, %s", res.StatusCode, body)
				}
				return
			}
			if err == nil || res.StatusCode != http.StatusOK || string(body) != `{"id":` {
				t.Errorf("status %d, %q, %v", res.StatusCode, body, err)
			}
		})
	}
}
