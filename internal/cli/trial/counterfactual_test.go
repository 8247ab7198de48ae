// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"math"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// counterfactual replays a conversation under a policy and returns the cost of the client's own
// bytes, prompts only: by a simulated provider that got them, and by the handler's account from the
// responses to its own requests.
func counterfactual(
	t *testing.T, c *recording.Conversation, profile pricing.Profile, policy pipeline.Policy,
) (exact, client, actual float64) {
	t.Helper()
	d := &drive{conversation: c, profile: profile, start: defaultStart, progress: func() {}}
	a, err := newArm(policy, profile, new(Options))
	if err != nil {
		t.Fatal(err)
	}
	defer a.store.Close()
	d.arms = []*arm{a}
	if err := d.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	requests := 0
	rules := profile.Rules() // no answer reaches the upper price tier alone, but all together may
	output := func(tokens int64) float64 { return rules.CostOutput(wire.Usage{Output: tokens}) }
	for _, s := range a.store.Page(sessioncache.Newest, 1000) {
		for _, l := range s.Report(time.Time{}).Conversations {
			requests += l.Requests
			client += l.Cost.ClientUnits - output(l.Total.Output)
			actual += l.Cost.Units - output(l.Total.Output)
		}
	}
	if requests != a.result.Calls {
		t.Errorf("%s: %d of %d requests are on the account", c.Name, requests, a.result.Calls)
	}
	if math.Abs(actual-a.result.Cost) > 1e-6*a.result.Cost {
		t.Errorf("%s: what was sent cost %.0f, on the account are %.0f", c.Name, a.result.Cost, actual)
	}
	return d.baseline.cost, client, actual
}

// The handler's account of the client's own bytes agrees within 3 % with a provider that got them,
// over all conversations.
func TestShadowAccount(t *testing.T) {
	within := 0.03
	folder, ok := testkit.LookupRecordings(t)
	if !ok || testing.Short() {
		t.Log("no recorded conversations, or -short: the two that are part of the module must do; set LLM_CACHE_TRACES to " +
			"a folder of others")
		folder, within = "testdata/traces", 0.05
	}
	conversations, err := recording.Find(folder)
	if err != nil {
		t.Fatal(err)
	}
	for half, name := range []string{"anthropic-5m", "openai"} {
		profile, err := pricing.ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		var exact, client, actual float64
		line := func(of string, e, s, a float64) {
			t.Logf("%-12s %-28s cost %+6.1f %%, by the account %+6.1f %%; error of the client's side %+5.2f %%", name, of,
				100*(a/e-1), 100*(a/s-1), 100*(s/e-1))
		}
		for i, c := range conversations {
			if len(conversations) > 4 && i%2 != half { // each profile has its own half of many
				continue
			}
			e, s, a := counterfactual(t, c, profile, pipeline.CostAware)
			exact, client, actual = exact+e, client+s, actual+a
			line(c.Name, e, s, a)
		}
		line("all", exact, client, actual)
		if math.Abs(client/exact-1) > within {
			t.Errorf("%s: the client's side is off by %+.2f %%", name, 100*(client/exact-1))
		}
	}
}

// Without edits the client's bill is the actual bill.
func TestShadowBill(t *testing.T) {
	conversations, err := recording.Find("testdata/traces")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pricing.Profiles() {
		profile, err := pricing.ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range conversations {
			if e, s, _ := counterfactual(t, c, profile, pipeline.Observe); math.Abs(s-e) > 1e-6*e {
				t.Errorf("%s, %s: %.0f instead of %.0f though nothing was edited", name, c.Name, s, e)
			}
		}
	}
}

// saves replays a conversation under a policy and returns the actual and the possible saving of its
// edits, by the handler's account.
func saves(
	t *testing.T, c *recording.Conversation, profile pricing.Profile, policy pipeline.Policy, o *Options,
) (baseline, saved, would float64) {
	t.Helper()
	d := &drive{conversation: c, profile: profile, start: defaultStart, progress: func() {}}
	a, err := newArm(policy, profile, o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.store.Close()
	d.arms = []*arm{a}
	if err := d.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range a.store.Page(sessioncache.Newest, 1000) {
		for _, l := range s.Report(time.Time{}).Conversations {
			baseline, saved, would = baseline+l.Cost.ClientUnits, saved+l.Cost.ClientUnits-l.Cost.Units, would+l.Cost.WouldSave
		}
	}
	return baseline, saved, would
}

// TestWouldAccount: the possible saving under observe is the actual one under cost_aware.
func TestWouldAccount(t *testing.T) {
	within, options := 0.03, new(Options)
	folder, ok := testkit.LookupRecordings(t)
	if !ok || testing.Short() {
		// Hardly anything is folded in short conversations, and the tool would cost as much as folds may.
		folder, options.Handler = "testdata/traces", []byte(`{"planner":{"risk":100},"expand":{"mode":"off"}}`)
	}
	conversations, err := recording.Find(folder)
	if err != nil {
		t.Fatal(err)
	}
	for half, name := range []string{"anthropic-5m", "openai"} {
		profile, err := pricing.ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		var baseline, saved, would float64
		for i, c := range conversations {
			if len(conversations) > 4 && i%2 != half { // each profile has its own half of many
				continue
			}
			o, s, none := saves(t, c, profile, pipeline.CostAware, options)
			_, nothing, w := saves(t, c, profile, pipeline.Observe, options)
			if none != 0 || math.Abs(nothing) > 1e-6*o {
				t.Errorf("%s: would have saved %.0f where edits are made, saved %.0f where none are", c.Name, none, nothing)
			}
			baseline, saved, would = baseline+o, saved+s, would+w
			t.Logf("%-12s %-28s saved %+6.1f %%, observed %+6.1f %%", name, c.Name, 100*s/o, 100*w/o)
		}
		t.Logf("%-12s %-28s saved %+6.1f %%, observed %+6.1f %%", name, "all", 100*saved/baseline, 100*would/baseline)
		if saved <= 0 || math.Abs(would-saved) > within*baseline {
			t.Errorf("%s: %.1f %% were saved, %.1f %% would have been by observing", name, 100*saved/baseline,
				100*would/baseline)
		}
	}
}
