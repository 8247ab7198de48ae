// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"fmt"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// results are the results of a model's request for a folded text.
var results = []string{"whole", "part", "unknown", "refused"}

// Outcomes of a continuation.
const (
	continuationAnswered = "answered"
	continuationFailed   = "failed"
	continuationLimit    = "limit"
)

var (
	expansions = metric.Known(metric.CounterVec("expansions_total",
		"Folded blocks that models asked for again, by the class of the tool whose text it was and what they got: whole, part, unknown, or refused (a call whose arguments held a stub or a note).",
		"class", "result"), sessioncache.ClassNames(), results)
	continuations = metric.CounterOf("continuations_total", "Answers to calls of the expand tool that the upstream was asked to go on from: answered, failed, or limit (asked too often in one turn).", "result",
		continuationAnswered, continuationFailed, continuationLimit)
)

// count counts expansions. A tool counts under its class, so the labels are bounded.
func count(all []pipeline.Expansion) {
	for _, e := range all {
		expansions.WithLabelValues(e.Class.String(), result(&e)).Inc()
	}
}

// result returns the label for an expansion's result.
func result(e *pipeline.Expansion) string {
	switch {
	case e.Refused:
		return "refused"
	case e.Unknown:
		return "unknown"
	case e.Part:
		return "part"
	}
	return "whole"
}

// told summarizes the results of expansions.
func told(all []pipeline.Expansion) string {
	counts := map[string]int{}
	for i := range all {
		counts[result(&all[i])]++
	}
	var parts []string
	for _, name := range results {
		if n := counts[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	return strings.Join(parts, ", ")
}
