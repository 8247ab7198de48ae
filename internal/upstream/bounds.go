// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/bedrock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/vertex"
)

// toolBounds are the limits of the providers' APIs by format.
var toolBounds = map[wire.Format]wire.ToolBounds{
	// Names: ^[a-zA-Z0-9_-]{1,128}$. Requests: 32 MB (API overview, "Request size limits");
	// 30 MB at Vertex AI and 25,000,000 bytes at Bedrock (InvokeModel).
	wire.Anthropic: {Name: 128, Bytes: 32 << 20},
	vertex.Format:  {Name: 128, Bytes: 30 << 20},
	bedrock.Format: {Name: 64, Bytes: 25_000_000},
	// "Invalid 'tools': array too long. Expected an array with maximum length 128"; the
	// same words bound descriptions at 1024. Azure, Groq, DeepSeek and Kimi have the same
	// count, xAI has 200.
	wire.OpenAIChat:      {Count: 128, Name: 64, Description: 1024},
	wire.OpenAIResponses: {Count: 128, Name: 64, Description: 1024},
	// "tools[0].function_declarations: [FIELD_INVALID] At most 512 function declarations
	// can be specified." Requests: 20 MB (Gemini API, "Files").
	wire.Gemini:       {Count: 512, Name: 64, Bytes: 20 << 20},
	wire.Interactions: {Count: 512, Name: 64, Bytes: 20 << 20},
}

// ToolBounds returns the upstream's limits for the tools of a request in a client's format. A local
// server has no limit but its model's context window.
func (p *Profile) ToolBounds(client wire.Format) (b wire.ToolBounds) {
	if !p.Local() {
		b = toolBounds[p.Target(client)]
	}
	if p.Upstream != nil && p.NameLimit != nil {
		b.Name = *p.NameLimit
	}
	return b
}
