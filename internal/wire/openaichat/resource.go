// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
)

// Resource implements [resource.Codec]: …/chat/completions/{id}, the stored completions.
func (Codec) Resource(path string) (r resource.Resource) {
	id, part, ok := resource.In(path, "/chat/completions")
	if !ok {
		return r
	}
	return resource.Resource{
		Format: wire.OpenAIChat, ID: id, Part: part, Answer: true, Given: strings.HasPrefix(id, "chatcmpl"),
		Missing: "Chat completion with id '" + id + "' not found.",
	}
}

// Deleted implements [resource.Codec].
func (Codec) Deleted(id string) []byte {
	return rawjson.Object("object", "chat.completion.deleted", "id", id, "deleted", true)
}
