// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package formats registers all formats. Packages that read requests or answers import it for
// this effect:
//
//	import _ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
package formats

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/anthropic"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/bedrock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/gemini"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/interactions"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openaichat"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openairesponses"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/vertex"
)

func init() {
	wire.Register(wire.Anthropic, anthropic.Codec{})
	wire.Register(wire.OpenAIChat, openaichat.Codec{})
	wire.Register(wire.OpenAIResponses, openairesponses.Codec{})
	wire.Register(wire.Gemini, gemini.Codec{})
	wire.Register(wire.Interactions, interactions.Codec{})
	wire.Register(vertex.Format, vertex.Codec{})
	wire.Register(bedrock.Format, bedrock.Codec{})
}

// Every format supports translation and intercepted calls.
var _ = [...]translate.Dialect{
	anthropic.Codec{},
	openaichat.Codec{},
	openairesponses.Codec{},
	gemini.Codec{},
	interactions.Codec{},
	vertex.Codec{},
	bedrock.Codec{},
}

var _ = [...]hidden.Codec{
	anthropic.Codec{},
	openaichat.Codec{},
	openairesponses.Codec{},
	gemini.Codec{},
	interactions.Codec{},
	vertex.Codec{},
	bedrock.Codec{},
}
