// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// TestCoalesceWrites: of four sub-agents that are started together one writes tools and
// system prompt, and the others read them; without coalescing each writes them.
func TestCoalesceWrites(t *testing.T) {
	const twins = 4
	var mu sync.Mutex
	var usages []wire.Usage
	var arrived int
	var open chan struct{}
	model := httptest.NewServer(&simulator.Handler{
		Cache: pricing.NewSimulator(pricing.SimulatorConfig{}),
		Hooks: simulator.Hooks{
			Answer: func(ctx context.Context, _ *wire.View) *simulator.Answer { // the prompt is billed, nothing is said yet
				mu.Lock()
				arrived++
				gate := open
				mu.Unlock()
				select {
				case <-gate:
				case <-ctx.Done():
				}
				return nil
			},
			Done: func(_ context.Context, u wire.Usage, _ *pricing.APIError) {
				mu.Lock()
				defer mu.Unlock()
				usages = append(usages, u)
			},
		},
	})
	t.Cleanup(model.Close)
	p := start(t, "respond 204")
	round := 0
	arm := func(site, system string, atModel int) (written, found int64) {
		t.Helper()
		p.reload(fmt.Sprintf("llm_cache {\n%s\n}\nreverse_proxy %s", site, model.Listener.Addr()))
		mu.Lock()
		usages, arrived, open = nil, 0, make(chan struct{})
		mu.Unlock()
		round++
		var wg sync.WaitGroup
		for i := range twins {
			body := fmt.Sprintf(`{"model":"claude-opus-5-5","max_tokens":1000,"stream":true,"tools":[{"name":"Read",`+
				`"input_schema":{"type":"object"}}],`+
				`"system":[{"type":"text","text":%q,"cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user",`+
				`"content":"Task %d of %d"}]}`, "Be kind. "+strings.Repeat(system, 400), i, round)
			wg.Go(func() { read(t, p.post("/v1/messages", body, "X-Session-Id", fmt.Sprint("task ", i, " of ", round))) })
		}
		until(t, "the requests that may go have come to the model, and the others wait", func() bool {
			mu.Lock()
			n := arrived
			mu.Unlock()
			return n == atModel && p.metric("caddy_llm_cache_coalesce_waiting") == float64(twins-atModel)
		})
		close(open)
		wg.Wait()
		for _, u := range usages {
			written, found = written+u.Write5m, found+u.Read
		}
		return written, found
	}
	salt := rand.Text() // what is known outlives configurations
	written, found := arm("coalesce off", "Be brief, "+salt, twins)
	if found != 0 || written == 0 {
		t.Fatalf("without coalescing %d tokens are written and %d read", written, found)
	}
	front := written / twins
	before := p.metric(`caddy_llm_cache_coalesced_total{outcome="written"}`)
	written, found = arm("", "Be quick, "+salt, 1)
	if found < (twins-1)*front*9/10 || written > front*11/10 {
		t.Errorf("%d tokens are written and %d read, of %d", written, found, front)
	}
	if n := p.metric(`caddy_llm_cache_coalesced_total{outcome="written"}`) - before; n != twins-1 {
		t.Errorf("%v have waited", n)
	}
	// What is known is not waited for, nor what is short.
	if _, found = arm("", "Be quick, "+salt, twins); found < twins*front*9/10 {
		t.Errorf("%d tokens of a known prefix are read", found)
	}
	arm("", "", twins)
}

// TestCoalescedOnce: a request that comes to a second site of the process, in the
// same route or over the network, does not wait there for itself.
func TestCoalescedOnce(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, strings.Join(events, ""))
	})
	p := start(t, "respond 204")
	second := testkit.FreeAddress(t)
	port := second[strings.LastIndex(second, ":"):]
	for name, behind := range map[string]string{
		"in a row":         "llm_cache\nreverse_proxy " + u.Listener.Addr().String(),
		"over the network": "reverse_proxy " + second,
	} {
		p.move()
		p.load(p.config("llm_cache {\n policy observe\n}\n"+behind, "http://"+port+" {\nllm_cache\nreverse_proxy "+
			u.Listener.Addr().String()+"\n}"))
		before := p.metric(`caddy_llm_cache_coalesced_total{outcome="expired"}`)
		body := fmt.Sprintf(`{"model":"claude-opus-5-5","max_tokens":1000,"stream":true,"tools":[{"name":"Read",`+
			`"input_schema":{"type":"object"}}],`+
			`"system":[{"type":"text","text":%q,"cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user",`+
			`"content":"Go."}]}`, strings.Repeat(rand.Text()+" ", 400))
		read(t, p.post("/v1/messages", body))
		if n := p.metric(`caddy_llm_cache_coalesced_total{outcome="expired"}`) - before; n != 0 {
			t.Errorf("%s: %v requests have waited in vain", name, n)
		}
	}
}
