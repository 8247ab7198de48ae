// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	parts "github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
)

// TestTwoCaddys: two Caddys of one process have memory, sessions, users and pages of their own. A
// reload of one, and its end, leaves the other alone.
func TestTwoCaddys(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerMessage)
	type side struct {
		*proxy
		user string
		size int64
	}
	var sides []*side
	for i, user := range []string{"ada", "grace"} {
		s := &side{start(t, "respond 204"), user, int64(i+1) * 64 << 20}
		s.load(s.optioned(fmt.Sprintf("memory %dMiB\nuser %s key-%s", s.size>>20, user, user), plain(u)+"\n"))
		s.host = "127.0.0.1:80"
		sides = append(sides, s)
	}
	for i, s := range sides {
		for range i + 1 {
			read(t, s.post("/v1/messages", conversation(1, false), "X-Api-Key", "key-"+s.user, "X-Session-Id", "one"))
		}
	}
	check := func(i int) {
		t.Helper()
		s, other := sides[i], sides[1-i]
		var page, metrics string
		s.adminDo(http.MethodGet, "/llm_cache/data", &page)
		if !strings.Contains(page, s.user) || strings.Contains(page, other.user) {
			t.Errorf("the page of %s has %s", s.user, page)
		}
		s.adminDo(http.MethodGet, "/metrics", &metrics)
		for line, want := range map[string]bool{
			fmt.Sprintf("\ncaddy_llm_cache_person_turns_total{person=%q} %d\n", s.user, i+1): true,
			fmt.Sprintf("\ncaddy_llm_cache_memory_budget_bytes %v\n", float64(s.size)):       true,
			"\ncaddy_llm_cache_sessions 1\n":                                                 true,
			fmt.Sprintf("person=%q", other.user):                                             false,
		} {
			if strings.Contains(metrics, line) != want {
				t.Errorf("metrics of %s: %q is %t, want %t", s.user, line, !want, want)
			}
		}
		if all := s.sessions(); len(all) != 1 || all[0].requests() != i+1 {
			t.Errorf("sessions of %s are %v, want one of %d requests", s.user, all, i+1)
		}
		if got, want := budget.Of(s.caddy.Instance).Limit(), parts.Bodies.Of(s.size); got != want {
			t.Errorf("bodies of %s may take %d bytes, want %d", s.user, got, want)
		}
	}
	check(0)
	check(1)
	sides[0].size = 32 << 20
	sides[0].move()
	sides[0].load(sides[0].optioned("memory 32MiB\nuser ada key-ada", plain(u)))
	check(0)
	check(1)
	sides[0].caddy.Stop(t)
	check(1)
}
