// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// Package formats registers all formats. Whoever reads requests or answers imports it
// for that:
//
//	import _ "github.com/caddy-llm-cache/caddy-llm-cache/wire/formats"
package formats

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/anthropic"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/bedrock"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/gemini"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/interactions"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/openaichat"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/openairesponses"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/vertex"
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

// All of these can be translated, and can hide calls.
var _ = [...]translate.Dialect{anthropic.Codec{}, openaichat.Codec{}, openairesponses.Codec{}, gemini.Codec{}, interactions.Codec{}, vertex.Codec{}, bedrock.Codec{}}

var _ = [...]hidden.Codec{anthropic.Codec{}, openaichat.Codec{}, openairesponses.Codec{}, gemini.Codec{}, interactions.Codec{}, vertex.Codec{}, bedrock.Codec{}}
