// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// A flush reaches the client also if the client's side had taken the bytes before it.
func TestLateFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, flushed := httptest.NewRecorder(), false
		next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			if _, err := w.Write([]byte("data: 1\n\n")); err != nil {
				return err
			}
			synctest.Wait()
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
			synctest.Wait()
			flushed = client.Flushed
			return nil
		})
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
		(&httpx.Payload{Data: []byte("{}")}).Attach(r)
		detached := new(Detached)
		detached.SetLimit(1 << 20)
		j := Rejoin{Grace: time.Hour, Detached: detached, Log: zap.NewNop()}
		if err := j.Layer(next, sessioncache.Tenant{}, Asked{}).ServeHTTP(client, r); err != nil {
			t.Fatal(err)
		}
		if got := client.Body.String(); got != "data: 1\n\n" || !flushed {
			t.Errorf("got %q, flushed %t, want the event at once", got, flushed)
		}
	})
}
