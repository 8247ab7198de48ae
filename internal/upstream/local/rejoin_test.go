// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
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

// TestWorkOfEdited: a retry finds the work of its request also where one of the two has its edits apart.
func TestWorkOfEdited(t *testing.T) {
	edited, err := wire.NewBody([]byte(`{"text":"long"}`), wire.Cut{Start: 8, End: 14, With: []byte(`"short"`)})
	if err != nil {
		t.Fatal(err)
	}
	var parts httpx.Payload
	parts.Edit(edited)
	keys := map[workKey]bool{}
	for _, p := range []*httpx.Payload{&parts, {Data: edited.Bytes()}, {Data: edited.Raw}} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		p.Attach(r)
		key, size := workOf(r, sessioncache.Tenant{})
		if want := int64(len(p.Bytes())); size != want {
			t.Errorf("%s: got size %d, want %d", p.Bytes(), size, want)
		}
		keys[key] = true
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != string(p.Bytes()) {
			t.Errorf("the request has %s, %v, want %s", body, err, p.Bytes())
		}
	}
	if len(keys) != 2 {
		t.Errorf("got %d keys of two bodies", len(keys))
	}
}
