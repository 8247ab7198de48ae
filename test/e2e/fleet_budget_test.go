// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/redis"
)

// Requests of TestFleetBudget, in tokens.
const (
	budgetPrompt, budgetAnswer = 300, 100
	// budgetReserved bounds the reservation of a request: half as much again as the estimated prompt, and
	// its max_tokens.
	budgetReserved = 2*budgetPrompt + budgetAnswer
)

// budgetFleet is several Caddys with one budget for all, and a count of what their upstream has served.
type budgetFleet struct {
	nodes  []*fleetNode
	served atomic.Int64 // requests
	pause  time.Duration
}

func startBudgetFleet(t *testing.T, s *redis.Server, limit int, auditOptions string) *budgetFleet {
	t.Helper()
	f := &budgetFleet{pause: 20 * time.Millisecond}
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the node was killed
		}
		f.served.Add(1)
		time.Sleep(f.pause)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5",`+
			`"content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn","stop_sequence":null,`+
			`"usage":{"input_tokens":%d,"output_tokens":%d}}`, budgetPrompt, budgetAnswer)
	}))
	t.Cleanup(model.Close)
	store := patient(s) + "\n\t\taudit sqlite" + auditOptions + fmt.Sprintf("\n\t\tbudget anna %d tokens month", limit) +
		"\n\t\tuser anna sk-anna"
	for range 2 {
		f.nodes = append(f.nodes, startNode(t, store, "llm_cache {\n\t\tupstream anthropic\n\t}\n\treverse_proxy "+
			model.Listener.Addr().String()))
	}
	return f
}

// ask sends a request of anna, and returns status 0 without a response.
func (f *budgetFleet) ask(t *testing.T, n *fleetNode) (status int, answer string) {
	body := fmt.Sprintf(`{"model":"claude-sonnet-4-5","max_tokens":%d,"messages":[{"role":"user","content":%q}]}`,
		budgetAnswer, strings.Repeat("word ", budgetPrompt))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+n.addr+"/v1/messages",
		strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	req.Host = fleetHost
	req.Header.Set("X-Api-Key", "sk-anna")
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, ""
	}
	return res.StatusCode, string(b)
}

// Two Caddys keep one budget over one Redis, with a crash in between: it is exceeded by the requests in
// flight at most. A server that has lost its memory gives nothing back.
func TestFleetBudget(t *testing.T) {
	needCaddy(t)
	const inFlight, limit = 6, 20_000
	s := startRedis(t)
	f := startBudgetFleet(t, s, limit, "")
	var work, dying sync.WaitGroup
	var killed atomic.Bool
	for i := range inFlight {
		work.Go(func() {
			for refused := 0; refused < 20; {
				switch status, answer := f.ask(t, f.nodes[i%2]); status {
				case http.StatusOK:
				case http.StatusTooManyRequests:
					refused++
					time.Sleep(20 * time.Millisecond)
				case 0: // killed
					time.Sleep(20 * time.Millisecond)
				default:
					t.Errorf("got %d: %s", status, answer)
					return
				}
				if f.served.Load() > limit/(budgetPrompt+budgetAnswer)/2 && killed.CompareAndSwap(false, true) {
					dying.Go(func() { f.nodes[0].dies(t) })
				}
			}
		})
	}
	work.Wait()
	dying.Wait()
	if !killed.Load() {
		t.Error("no node was killed")
	}
	spent := int(f.served.Load()) * (budgetPrompt + budgetAnswer)
	t.Logf("%d of %d tokens, %d requests", spent, limit, f.served.Load())
	if spent > limit+inFlight*budgetReserved {
		t.Errorf("got %d tokens, want %d, and %d more at most", spent, limit, inFlight*budgetReserved)
	}
	// The reservations of the killed node count until their lease ends.
	if spent < limit-inFlight*budgetReserved {
		t.Errorf("got %d tokens, want %d, and %d less at most", spent, limit, inFlight*budgetReserved)
	}
	do(t, s, "FLUSHALL")
	served := f.served.Load()
	for range 10 {
		for _, n := range f.nodes {
			f.ask(t, n)
		}
	}
	// The first request of each node may take the place of reservations that were lost.
	if n := int(f.served.Load()-served) * (budgetPrompt + budgetAnswer); spent+n > limit+inFlight*budgetReserved {
		t.Errorf("got %d tokens more after the server has lost its memory", n)
	}
}

// While the server is down, budgets hold at each Caddy by itself; with on_error refuse requests are
// refused.
func TestFleetBudgetWithoutServer(t *testing.T) {
	needCaddy(t)
	for name, options := range map[string]string{"open": "", "closed": " {\n\t\t\ton_error refuse\n\t\t}"} {
		t.Run(name, func(t *testing.T) {
			s := startRedis(t)
			f := startBudgetFleet(t, s, 1_000_000, options)
			for _, n := range f.nodes {
				if status, answer := f.ask(t, n); status != http.StatusOK {
					t.Fatalf("got %d: %s", status, answer)
				}
			}
			s.Kill()
			begun := time.Now()
			for _, n := range f.nodes {
				status, answer := f.ask(t, n)
				if name == "open" && status != http.StatusOK {
					t.Errorf("got %d: %s", status, answer)
				}
				if name == "closed" && (status != http.StatusTooManyRequests ||
					!strings.Contains(answer, "budgets cannot be counted at the moment")) {
					t.Errorf("got %d: %s", status, answer)
				}
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("two requests took %s", took)
			}
			ctx := t.Context()
			if err := s.Start(ctx); err != nil {
				t.Fatal(err)
			}
			for _, n := range f.nodes {
				for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
					status, answer := f.ask(t, n)
					if status == http.StatusOK {
						break
					}
					if time.Since(begun) > 30*time.Second {
						t.Fatalf("after the server has come back: got %d: %s", status, answer)
					}
				}
			}
		})
	}
}
