// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/lab/study/optimum"
)

// On conversations: chosen moments save less than any request, inputs save more, and no optimum
// costs more than the client's own bytes.
func TestOptimum(t *testing.T) {
	conversations, err := recording.Find(traces)
	if err != nil {
		t.Fatal(err)
	}
	replayed := func(inputs bool) *Report {
		t.Helper()
		o := trial.Options{Profiles: pricing.Profiles(), Policies: []pipeline.Policy{pipeline.Off}}
		r, err := run(t.Context(), conversations, o, &optimum.Options{Over: 500, Hot: 4, Inputs: inputs})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	results, inputs := replayed(false), replayed(true)
	if n := len(results.Optima); n != 2*len(pricing.Profiles()) {
		t.Fatalf("%d optima", n)
	}
	for i := 0; i < len(results.Optima); i += 2 {
		always, chosen, more := &results.Optima[i], &results.Optima[i+1], &inputs.Optima[i]
		base := results.Runs[i/2].Total.BaseCost
		if always.Moments != optimum.AnyRequest || chosen.Moments != optimum.Boundaries ||
			math.Abs(always.BaseCost-base) > 1e-6 || len(always.Conversations) != 2 {
			t.Errorf("%+v", always)
		}
		if always.Cost > chosen.Cost+1e-6 || chosen.Cost > base+1e-6 || more.Cost > always.Cost+1e-6 || always.Worst() > 1+
			1e-9 {
			t.Errorf("%s: %.0f at any request, %.0f at chosen ones, %.0f with inputs, of %.0f", always.Profile, always.Cost,
				chosen.Cost, more.Cost, base)
		}
		if always.Profile == "anthropic-5m" && (always.Cost >= base || always.Folds == 0) {
			t.Errorf("%s: nothing was won", always.Profile)
		}
	}
	var text strings.Builder
	if err := results.WriteText(&text); err != nil || !strings.Contains(text.String(), "boundaries, cold") {
		t.Errorf("%v: %s", err, text.String())
	}
}
