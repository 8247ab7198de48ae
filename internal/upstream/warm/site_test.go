// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package warm_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/caddystop"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/localsite" // the options of warm
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/warm"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
)

func init() {
	caddy.RegisterModule(new(app.App))
	caddy.RegisterModule(pinger.Limits{})
	caddy.RegisterModule(app.MemoryStore{})
	caddy.RegisterModule(handler.Handler{})
}

// loadIdle makes all servers appear idle for long.
func loadIdle() {
	for _, s := range state.Open(shared.Process) {
		warm.Of(s).LoadIdle()
	}
}

// arrived is a request that reached a server.
type arrived struct{ path, key, body string }

// chatServer answers chat completions, and all other requests with an empty object.
type chatServer struct {
	*httptest.Server
	mu  sync.Mutex
	got []arrived
}

func newChatServer(t *testing.T) *chatServer {
	b := new(chatServer)
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			_, _ = io.WriteString(w,
				`{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",`+
					`"content":"Done."},"finish_reason":"stop"}],"usage":{"prompt_tokens":900,"completion_tokens":1,`+
					`"total_tokens":901}}`)
		} else {
			_, _ = io.WriteString(w, `{}`)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.got = append(b.got, arrived{r.URL.Path, r.Header.Get("Authorization"), string(body)})
	}))
	t.Cleanup(b.Close)
	return b
}

// came waits for n requests in total.
func (b *chatServer) came(t *testing.T, n int) []arrived {
	t.Helper()
	for range 12000 {
		b.mu.Lock()
		got := b.got
		b.mu.Unlock()
		if len(got) >= n {
			return got
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%d requests came, want %d", len(b.got), n)
	return nil
}

// TestModelStaysLoaded: an idle server keeps its model loaded in working hours: ollama by its own
// request, all others by the most used base. Outside the hours no requests are sent.
func TestModelStaysLoaded(t *testing.T) {
	const allDay, never = "00:00-00:00", "mon 00:00-00:01"
	for _, c := range []struct {
		upstream, path string
		want           map[string]string // members of the request
	}{
		{
			`"preset": "ollama", "models": [{"from": "claude-*", "to": "qwen3:8b"}]`, "/api/generate",
			map[string]string{"model": `"qwen3:8b"`, "keep_alive": `"480s"`, "messages": "", "prompt": ""},
		},
		{
			`"preset": "lm_studio", "body": {"ttl": 3600}`, "/v1/chat/completions",
			map[string]string{"max_tokens": "1", "ttl": "3600", "messages.#": "2", "tools.#": "1", "messages.1.content": `"."`},
		},
		{`"preset": "mlx_lm"`, "/v1/chat/completions", map[string]string{
			"max_tokens": "1", "messages.#": "2", "tools.#": "1",
			"model": `"default_model"`,
		}},
	} {
		t.Run(gjson.Get("{"+c.upstream+"}", "preset").Str, func(t *testing.T) {
			b, addr := newChatServer(t), testkit.FreeAddress(t)
			t.Cleanup(func() { caddystop.Stop(t) })
			load := func(hours string) {
				t.Helper()
				config := fmt.Sprintf(`{"admin": {"disabled": true, "config": {"persist": false}}, "logging": {"logs": {"default": {"writer": {"output": "discard"}}}},
					"apps": {"http": {"servers": {"srv0": {"listen": [%q], "automatic_https": {"disable": true}, "routes": [{"handle": [
						{"handler": "llm_cache", "upstream": {%s}, "features": {"local": {"queue": {}, "warm": {"loaded": %q}}}},
						{"handler": "reverse_proxy", "upstreams": [{"dial": %q}]}]}]}}}}}`, addr, c.upstream, hours, b.Listener.Addr().String())
				if err := caddy.Load([]byte(config), true); err != nil {
					t.Fatal(err)
				}
			}
			load(never)
			req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/v1/messages", strings.NewReader(
				`{"model":"claude-sonnet-5","max_tokens":100,"system":"You are an agent.","tools":[{"name":"Read",`+
					`"input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"Hello"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Api-Key", "sk-one")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if got := b.came(t, 1); res.StatusCode != http.StatusOK || len(got) != 1 {
				t.Fatalf("%s, %d requests", res.Status, len(got))
			}
			if now := time.Now(); now.Weekday() != time.Monday || now.Hour() > 0 { // not in that minute of the week
				loadIdle()
			}
			load(allDay)
			loadIdle()
			got := b.came(t, 2)[1] // the first since: none was sent outside the hours
			if got.path != c.path {
				t.Fatalf("%s %s, want %s", got.path, got.body, c.path)
			}
			if got.key != "Bearer sk-one" {
				t.Errorf("it came with the key %q", got.key)
			}
			for member, want := range c.want {
				if v := gjson.Get(got.body, member); v.Raw != want {
					t.Errorf("%s is %s, want %s in %s", member, v.Raw, want, got.body)
				}
			}
		})
	}
}
