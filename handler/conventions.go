// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
)

// spanConventions are the names of the OpenTelemetry conventions for generative AI that
// differ between two versions of them. Only one version is used: a backend that sums attributes
// would count both.
type spanConventions struct {
	schema     string
	cacheWrite attribute.Key
	compacted  attribute.Key // "": has no name
}

var (
	// version141 are those of version 1.41, the last in the general conventions.
	version141 = &spanConventions{
		schema:     "https://opentelemetry.io/schemas/1.41.0",
		cacheWrite: "gen_ai.usage.cache_creation.input_tokens",
	}
	// latest are those of the repository that they have moved to.
	latest = &spanConventions{
		schema:     "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev",
		cacheWrite: "gen_ai.usage.cache_write.input_tokens",
		compacted:  "gen_ai.conversation.compacted",
	}
)

// spanConventionsInForce are those that the environment asks for, as the conventions' own rule
// for transitions has it.
func spanConventionsInForce() *spanConventions {
	for name := range strings.SplitSeq(os.Getenv("OTEL_SEMCONV_STABILITY_OPT_IN"), ",") {
		if strings.TrimSpace(name) == "gen_ai_latest_experimental" {
			return latest
		}
	}
	return version141
}
