// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"
	"time"
)

// Codex with a ChatGPT login works through a task at the backend's path: its requests are one session, are
// edited, and read from the cache. Requests about the account are not on record. The session shows the windows of the plan, and what edits have saved of
// them. The account is made up, and the backend simulated.
func TestCodexLogin(t *testing.T) {
	t.Parallel()
	c := codex{login: true}
	needClient(t, c)
	r := newRepository(t, c)
	first, second := r.first(), r.second()
	s := startStack(t, setup{
		cache: "policy eager", model: "subscription $0.3", script: slices.Concat(first, second), audit: true, unwatched: true,
	})
	u := newUser(t, codex{url: s.url, login: true}, r.dir)
	u.ask(t, firstPrompt, first)
	u.ask(t, secondPrompt, second)
	r.check(t)

	steps := len(first) + len(second)
	s.until(t, "all turns are on record", func() bool { return len(s.recorded(t)) == steps })
	edited := 0
	for i, turn := range s.recorded(t) {
		if turn.Client != "codex" || turn.ClientFormat != "openai_responses" || turn.Outcome != "completed" ||
			i > 0 && turn.Billed.Read == 0 {
			t.Errorf("turn %d: %+v", i, turn)
		}
		if turn.SentTokens < turn.OriginalTokens {
			edited++
		}
	}
	if edited == 0 {
		t.Error("eager never made a request smaller")
	}
	var sessions struct {
		Sessions []struct {
			Windows []struct {
				Name        string
				Used        float64
				Resets      time.Time
				SavedPoints *float64 `json:"saved_points"`
			}
		}
	}
	if err := s.Get(t.Context(), "/llm_cache/sessions", &sessions); err != nil || len(sessions.Sessions) != 1 {
		t.Fatalf("%d sessions, %v, want 1", len(sessions.Sessions), err)
	}
	w := sessions.Sessions[0].Windows
	if len(w) != 2 || w[0].Name != "codex 5h" || w[1].Name != "codex 7d" || w[0].Used == 0 || w[0].SavedPoints == nil ||
		time.Until(w[0].Resets) > 5*time.Hour {
		t.Errorf("the session has the windows %+v", w)
	}
}
