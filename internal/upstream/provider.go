// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/bedrock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/vertex"
)

// providers maps presets to the provider names of the OpenTelemetry conventions for generative AI
// (gen_ai.provider.name, 1.41).
var providers = map[string]string{
	"anthropic": "anthropic", "openai": "openai", "gemini": "gcp.gemini", "vertex": "gcp.vertex_ai", "bedrock": "aws.bedrock",
	"azure": "azure.ai.openai", "mistral": "mistral_ai", "xai": "x_ai",
}

// spoken maps a format to the provider that owns it, for upstreams without a preset.
var spoken = map[wire.Format]string{
	wire.Anthropic: "anthropic", wire.OpenAIChat: "openai", wire.OpenAIResponses: "openai",
	wire.Gemini: "gcp.gemini", wire.Interactions: "gcp.gemini", vertex.Format: "gcp.vertex_ai", bedrock.Format: "aws.bedrock",
}

// operations maps formats to operation names other than chat.
var operations = map[wire.Format]string{wire.Gemini: "generate_content", wire.Interactions: "generate_content"}

// Provider returns the provider's name for requests in a client's format, as traces use it: the
// conventions' name, or else the preset.
func (p *Profile) Provider(client wire.Format) string {
	preset := p.Name()
	switch name, ok := providers[preset]; {
	case ok:
		return name
	case preset != "":
		return preset
	}
	return spoken[p.Target(client)]
}

// Operation returns the name of the operation of requests in a client's format, as traces use it
// (gen_ai.operation.name).
func (p *Profile) Operation(client wire.Format) string {
	return cmp.Or(operations[p.Target(client)], "chat")
}
