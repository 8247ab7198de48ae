// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package llmcache

import (
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
)

// named are the counters with the names of configured users or sites, which do not exist from the
// start.
var named = []string{
	"budget_forecast_ratio", "budget_used_ratio", "holdout",
	"model_cost_usd_total", "model_tokens_total", "model_turns_total", "person_cost_usd_total", "person_tokens_total",
	"person_turns_total",
	"project_cost_usd_total", "project_tokens_total", "project_turns_total",
	"requests_total", "site_cost_usd_total", "site_tokens_total", "site_turns_total", "translations_total",
}

// TestCountersFromTheStart: each counter exists at zero from the start, so that rates see the first
// event of a rare kind.
func TestCountersFromTheStart(t *testing.T) {
	reg := prometheus.NewRegistry()
	if err := metric.Register(shared.Process, reg); err != nil {
		t.Fatal(err)
	}
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]map[string]bool{} // values of labels, by name
	for _, family := range all {
		values := map[string]bool{}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				values[l.GetValue()] = true
			}
		}
		there[family.GetName()] = values
	}
	described := make(chan *prometheus.Desc, 1<<10)
	go func() {
		defer close(described)
		reg.Describe(described)
	}()
	for d := range described {
		name := regexp.MustCompile(`fqName: "caddy_llm_cache_(\w+)"`).FindStringSubmatch(d.String())[1]
		if there["caddy_llm_cache_"+name] == nil && !slices.Contains(named, name) {
			t.Errorf("%s is not there from the start", name)
		}
	}
	for name, values := range map[string][]string{
		"origin_requests_total": {"made", "whole", "passed", "unknown-base", "no-room"},
		"retain_resends_total":  {"origin", "threads", "responses", "websocket", "letta", "letta_agents"},
		"retain_requests_total": {"delta", "new", "larger"},
		"expansions_total":      {"read", "command", "whole", "refused"},
	} {
		for _, v := range values {
			if !there["caddy_llm_cache_"+name][v] {
				t.Errorf("%s has no %q", name, v)
			}
		}
	}
}
