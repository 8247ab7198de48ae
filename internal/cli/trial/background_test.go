// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// A local server folds in pauses that are long enough for reading the rest. Then it sends less, and
// users do not wait longer.
func TestBackground(t *testing.T) {
	run := func(file string, speed float64) Result {
		t.Helper()
		return replayed(t, Options{
			Profiles: []string{"kv"}, Policies: []pipeline.Policy{pipeline.CostAware},
			Background: speed,
		}, file).Runs[0].Total
	}
	long, short := testkit.ReadRecording(t, 300), testkit.ReadRecording(t, 4)
	without, with := run(long, 0), run(long, 500)
	b := with.Background
	if without.Background != (Background{}) || b.Held == 0 || b.Processed == 0 || b.Held+b.Broken > b.Planned {
		t.Fatalf("without: %+v, with: %+v", without.Background, b)
	}
	if with.TokenRatio() > 0.8*without.TokenRatio() {
		t.Errorf("prompt tokens are %.3f of the client's, without folding in pauses %.3f", with.TokenRatio(),
			without.TokenRatio())
	}
	if fresh(with.Sent) > fresh(with.Base) || fresh(with.Sent) > fresh(without.Sent)*101/100 {
		t.Errorf("people waited for %d tokens; for the client's own bytes it is %d, without folding in pauses %d",
			fresh(with.Sent), fresh(with.Base), fresh(without.Sent))
	}
	if with.Rejected+with.FailedOpen+with.Resent > 0 {
		t.Errorf("%+v", with)
	}

	// Three seconds are too short for a slow server, and nothing changes.
	cut, plain := run(short, 100), run(short, 0)
	if cut.Background.Broken == 0 || cut.Background.Held > 0 || cut.Background.Wasted == 0 {
		t.Errorf("in short pauses: %+v", cut.Background)
	}
	if cut.Sent != plain.Sent {
		t.Errorf("folds that were broken off change what is sent: %+v, not %+v", cut.Sent, plain.Sent)
	}
}
