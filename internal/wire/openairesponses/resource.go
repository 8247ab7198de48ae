// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
)

// Resource implements [resource.Codec]: …/responses/{id}, its input_items, and its cancel action.
func (Codec) Resource(path string) (r resource.Resource) {
	id, part, ok := resource.In(path, "/responses")
	if !ok || id == "" {
		return r
	}
	return resource.Resource{
		Format: wire.OpenAIResponses, ID: id, Part: part, Answer: true, Given: strings.HasPrefix(id, "resp_"),
		Missing: "Response with id '" + id + "' not found.",
	}
}

// Deleted implements [resource.Codec].
func (Codec) Deleted(id string) []byte {
	return rawjson.Object("id", id, "object", "response", "deleted", true)
}
