// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
)

// usage describes the members of a usage object.
var usage = wire.UsageTable{
	{Name: "input_tokens", Count: wire.CountPrompt},
	{Name: "input_tokens_details", In: openai.InputDetails},
	{Name: "output_tokens", Count: wire.CountOutput},
	{Name: "output_tokens_details", In: []wire.UsageMember{{Name: "reasoning_tokens", Count: wire.CountReasoning}}},
	{Name: "total_tokens", Count: wire.CountSum},
}
