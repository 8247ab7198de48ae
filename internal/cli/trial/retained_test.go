// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"math"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// retentions lists the ways in which a provider retains conversations of clients that send everything.
var retentions = []struct {
	name, profile, options string
	// within is the share of the client's own cost by which the costs with and without may differ. A thread holds the
	// model's own bytes: a whole request after a fold finds the cache up to the last whole request only.
	within float64
}{
	{"threads", "anthropic-5m", `{"features":{"retain":{"threads":"on"}}}`, 0.02},
	{"websocket", "openai-responses", `{"features":{"retain":{"websocket":true}}}`, 0.01},
}

// A provider that retains conversations of clients that send everything gets new messages only. The
// model gets the whole conversation each time, and the cost is that without.
func TestRetained(t *testing.T) {
	for _, c := range retentions {
		t.Run(c.name, func(t *testing.T) {
			checkRetained(t, Options{
				Profiles: []string{c.profile},
				Policies: []pipeline.Policy{pipeline.Observe, pipeline.CostAware},
			},
				c.options, c.within, "testdata/traces")
		})
	}
}

// The same with recordings. Over a WebSocket the model's own answers equal those that the client
// sends back, to the byte. So the simulated cache finds them when all is sent again, after a fold
// or on a new connection.
func TestRetainedRecordings(t *testing.T) {
	if testing.Short() {
		t.Skip("replays tens of megabytes twice")
	}
	var some []string // a sixth: all of them take minutes
	for i, f := range testkit.RecordingFiles(t) {
		if i%6 == 0 {
			some = append(some, f)
		}
	}
	for _, c := range retentions {
		t.Run(c.name, func(t *testing.T) {
			checkRetained(t, Options{Profiles: []string{c.profile}}, c.options, c.within, some...)
		})
	}
}

func checkRetained(t *testing.T, o Options, options string, within float64, paths ...string) {
	t.Helper()
	plain := replayed(t, o, paths...)
	o.Handler = []byte(options)
	report := replayed(t, o, paths...)
	if v := report.Violations(); len(v) > 0 {
		t.Errorf("%s", strings.Join(v, "\n"))
	}
	for i := range report.Runs {
		c, all := &report.Runs[i].Total, &plain.Runs[i].Total
		t.Logf("%s, %s: of %d requests went %v; bytes on the wire %.4f of whole; cost %.4f of the client's own, without "+
			"%.4f; harm %d, %d; resent %d",
			c.Profile, c.Policy, c.Calls, c.Retained, float64(c.Wire)/float64(c.Whole), c.CostRatio(), all.CostRatio(), c.Harmed,
			all.Harmed, c.Resent)
		if d := c.CostRatio() - all.CostRatio(); math.Abs(d) > within || c.Harmed != all.Harmed {
			t.Errorf("%s, %s: the cost is %.4f of the client's own, not %.4f; harm %d, not %d", c.Profile, c.Policy,
				c.CostRatio(), all.CostRatio(), c.Harmed, all.Harmed)
		}
		if c.Retained["delta"] < c.Calls/2 || c.Wire > c.Whole*3/4 {
			t.Errorf("%s, %s: of %d requests went %v, %d bytes of %d", c.Profile, c.Policy, c.Calls, c.Retained, c.Wire, c.Whole)
		}
	}
}
