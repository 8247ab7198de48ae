// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
)

// Resource implements [resource.Codec]: …/messages/batches.
func (Codec) Resource(path string) (r resource.Resource) {
	id, part, ok := resource.In(path, "/messages/batches")
	if !ok {
		return r
	}
	return resource.Resource{Format: wire.Anthropic, ID: id, Part: part, Given: true}
}

// Deleted implements [resource.Codec].
func (Codec) Deleted(string) []byte { return nil }
