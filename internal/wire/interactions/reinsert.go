// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/flat"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
)

var steps = flat.Format{
	Sealed:  "signature",
	Text:    func(step gjson.Result) string { return step.Get("content.0.text").Str },
	Results: toolResults,
}

// Reinsert implements [intercept.Codec].
func (Codec) Reinsert(v *wire.View, message int, its []intercept.Iteration) ([]wire.Edit, bool) {
	return flat.Reinsert(v, message, its, steps)
}
