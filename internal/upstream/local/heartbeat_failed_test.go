// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Codex reads response.failed only, also in a stream that a heartbeat has opened.
func TestFailureInAnOpenedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, w := livelyCall(t, wire.OpenAIResponses, nil, "codex_cli_rs/0.1")
		time.Sleep(defaultOpen + time.Second)
		a.Header().Set("Content-Type", "application/json")
		a.WriteHeader(http.StatusBadRequest)
		_, err := io.WriteString(a, `{"error":{"message":"Your input exceeds the context window of this model.",`+
			`"type":"invalid_request_error","code":"context_length_exceeded"}}`)
		if err := a.End(err); err != nil {
			t.Errorf("an error is left: %v", err)
		}
		_, data, ok := strings.Cut(w.Body.String(), "event: response.failed\ndata: ")
		if code := gjson.Get(data, "response.error.code").Str; !ok || code != "context_length_exceeded" {
			t.Errorf("got the code %q in %q", code, w.Body)
		}
	})
}
