// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
)

// Resource implements [resource.Codec]: …/interactions/{id}, and its cancel action.
func (Codec) Resource(path string) (r resource.Resource) {
	id, part, ok := resource.In(path, "/interactions")
	if !ok || id == "" {
		return r
	}
	return resource.Resource{
		Format: wire.Interactions, ID: id, Part: part, Answer: true, Given: strings.HasPrefix(id, "v1_"),
		Missing: "The interaction '" + id + "' was not found.",
	}
}

// Deleted implements [resource.Codec]. The API answers with an empty object.
func (Codec) Deleted(string) []byte { return []byte("{}") }
