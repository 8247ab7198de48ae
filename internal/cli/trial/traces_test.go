// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// everyProfileEnv selects every conversation under every profile.
const everyProfileEnv = "LLM_CACHE_REPLAY_ALL"

// Over all recorded conversations, under every policy: no request is refused or fails open, and off
// and observe are byte-identical. Each conversation meets one profile, two in the nightly run, and
// each profile some conversations.
func TestRecordedConversations(t *testing.T) {
	if testing.Short() {
		t.Skip("replays a hundred megabytes, once for each policy")
	}
	conversations, err := recording.Find(testkit.RecordingFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	if raceDetector { // ten times slower, and the short ones have all the races, too
		conversations = slices.DeleteFunc(conversations, func(c *recording.Conversation) bool { return c.Calls > 60 })
	}
	profiles := pricing.Profiles()
	for i, profile := range profiles {
		some := conversations
		if os.Getenv(everyProfileEnv) == "" {
			some = nil
			for j, c := range conversations {
				if j%len(profiles) == i || testkit.Every(2) == 1 && (j+3)%len(profiles) == i {
					some = append(some, c)
				}
			}
		}
		t.Run(profile, func(t *testing.T) { obeysTheRules(t, some, profile) })
	}
}

func obeysTheRules(t *testing.T, conversations []*recording.Conversation, profile string) {
	report, err := Run(t.Context(), conversations, Options{Profiles: []string{profile}, Policies: Policies})
	if err != nil {
		t.Fatal(err)
	}
	if v := report.Violations(); len(v) > 0 {
		t.Errorf("%s", strings.Join(v, "\n"))
	}
	for i := range report.Runs {
		run := &report.Runs[i]
		c := &run.Total
		t.Logf("%-12s %-10s cost %s tokens %s worst %s harm %.1f %% of %d edits", c.Profile, c.Policy,
			figure.Change(c.CostRatio()), figure.Change(c.TokenRatio()), figure.Change(run.WorstRatio), 100*c.Harm(), c.Edits)
		if c.BaseRejected > 0 {
			t.Errorf("%s: %d of the client's own requests are refused", c.Profile, c.BaseRejected)
		}
	}
}
