// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// A client with its conversations in threads pays the same as without, within a hundredth, and the
// model gets the whole conversation each time.
func TestThreads(t *testing.T) {
	o := Options{Profiles: []string{"anthropic-5m", "opus-5.5"}, Policies: []pipeline.Policy{
		pipeline.Observe,
		pipeline.CostAware,
	}}
	recordedThreads(t, o, "testdata/traces")
}

func TestRecordedThreads(t *testing.T) {
	if testing.Short() {
		t.Skip("replays tens of megabytes twice")
	}
	var some []string // a third: all of them take minutes
	for i, f := range testkit.RecordingFiles(t) {
		if i%3 == 0 {
			some = append(some, f)
		}
	}
	recordedThreads(t, Options{Profiles: []string{"anthropic-5m"}}, some...)
}

func recordedThreads(t *testing.T, o Options, paths ...string) {
	t.Helper()
	whole := replayed(t, o, paths...)
	o.Threads = true
	report := replayed(t, o, paths...)
	if v := report.Violations(); len(v) > 0 {
		t.Errorf("%s", strings.Join(v, "\n"))
	}
	for i := range report.Runs {
		c, all := &report.Runs[i].Total, &whole.Runs[i].Total
		t.Logf("%s, %s: %d of %d requests hold what is new, %d sent again; cost %.4f of the client's own, of the same "+
			"client sending everything %.4f; tokens %.4f, %.4f; harm %d, %d",
			c.Profile, c.Policy, c.Continued, c.Calls, c.Replayed, c.CostRatio(), all.CostRatio(), c.TokenRatio(),
			all.TokenRatio(), c.Harmed, all.Harmed)
		if d := c.CostRatio() - all.CostRatio(); d > 0.01 || c.Continued < c.Calls/2 {
			t.Errorf("%s, %s: the cost is %.4f of the client's own, not %.4f; %d of %d requests go on", c.Profile, c.Policy,
				c.CostRatio(), all.CostRatio(), c.Continued, c.Calls)
		}
	}
}
