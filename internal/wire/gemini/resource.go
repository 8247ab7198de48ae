// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/resource"
)

// asked are the methods of a model without an immediate answer: batches, embeddings and predictions.
var asked = []string{
	":batchGenerateContent", ":embedContent", ":batchEmbedContents", ":asyncBatchEmbedContent",
	":predict", ":predictLongRunning",
}

// Resource implements [resource.Codec]: …/cachedContents, and the other methods of models.
func (Codec) Resource(path string) (r resource.Resource) {
	if id, part, ok := resource.In(path, "/cachedContents"); ok {
		return resource.Resource{Format: wire.Gemini, ID: id, Part: part, Given: true}
	}
	at := strings.LastIndexByte(path, ':')
	if at < 0 || !strings.Contains(path[:at], "/models/") || !slices.Contains(asked, path[at:]) {
		return r
	}
	return resource.Resource{Format: wire.Gemini, Part: path[at+1:], Given: true}
}

// Deleted implements [resource.Codec].
func (Codec) Deleted(string) []byte { return nil }
