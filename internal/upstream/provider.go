// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/bedrock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/vertex"
)

// providers are those that the OpenTelemetry conventions for generative AI have a name
// for (gen_ai.provider.name, 1.41), by preset.
var providers = map[string]string{
	"anthropic": "anthropic", "openai": "openai", "gemini": "gcp.gemini", "vertex": "gcp.vertex_ai", "bedrock": "aws.bedrock",
}

// spoken are those whose own API a format is, for upstreams of which nothing is said.
var spoken = map[wire.Format]string{
	wire.Anthropic: "anthropic", wire.OpenAIChat: "openai", wire.OpenAIResponses: "openai",
	wire.Gemini: "gcp.gemini", wire.Interactions: "gcp.gemini", vertex.Format: "gcp.vertex_ai", bedrock.Format: "aws.bedrock",
}

// operations are those that have another name than chat.
var operations = map[wire.Format]string{wire.Gemini: "generate_content", wire.Interactions: "generate_content"}

// Provider returns who serves the model of requests in a client's format, as traces call
// them: by the conventions' name, or else by the preset's.
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

// Operation returns what requests in a client's format ask the upstream for, as traces
// call it (gen_ai.operation.name).
func (p *Profile) Operation(client wire.Format) string {
	return cmp.Or(operations[p.Target(client)], "chat")
}
