// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	_ "github.com/caddy-llm-cache/caddy-llm-cache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

// TestStore runs the tests of stores on the external one.
func TestStore(t *testing.T) {
	storetest.Store(t, func(t *testing.T) *sessioncache.Store {
		s, err := new(Sessions).Open()
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
	backends := map[*testing.T]*snapshots{}
	storetest.Backend(t, func(t *testing.T) sessioncache.Backend {
		if backends[t] == nil {
			backends[t] = &snapshots{}
		}
		return backends[t]
	})
}

// TestExtensions serves a request with a store, an audit store, a signer and a compressor from
// outside of the module.
func TestExtensions(t *testing.T) {
	stamps := make(chan string, 1)
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stamps <- r.Header.Get("X-Stamp")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w,
			`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi."}],`+
				`"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":1}}`)
	}))
	defer u.Close()
	server := httptest.NewUnstartedServer(nil) // for a free port
	address := server.Listener.Addr().String()
	_ = server.Listener.Close()
	config := fmt.Sprintf(`{"admin":{"disabled":true},"apps":{
		"llm_cache":{"store":{"module":"external"},"audit":{"module":"external","interval":"10ms"}},
		"http":{"servers":{"s":{"listen":[%q],"automatic_https":{"disable":true},"routes":[{"handle":[
			{"handler":"llm_cache","features":{"compress":{"compressor":{"module":"external"}}},"upstream":{"signer":{"provider":"external"}}},
			{"handler":"reverse_proxy","upstreams":[{"dial":%q}]}]}]}}}}}`, address, strings.TrimPrefix(u.URL, "http://"))
	if err := caddy.Load([]byte(config), true); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/messages",
		strings.NewReader(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hello."}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), "Hi.") {
		t.Errorf("got %s, %s, %v", res.Status, body, err)
	}
	if got := <-stamps; got != "stamped" {
		t.Errorf("got the stamp %q, want stamped", got)
	}
	for deadline := time.Now().Add(10 * time.Second); written.Load() == 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if written.Load() == 0 {
		t.Error("no record was written")
	}
	if err := caddy.Stop(); err != nil {
		t.Error(err)
	}
}
