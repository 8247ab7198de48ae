// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// resourceTokens returns about how many tokens the prompt of a request has.
func resourceTokens(f wire.Format, body []byte) (n int, err error) {
	in := translate.Incoming{Body: body}
	if c, ok := f.Codec().(wire.TokenCounter); ok {
		in.Body, in.Path = c.CountedRequest(body)
	}
	if _, err := translate.Read(f, in); err != nil {
		return 0, fmt.Errorf("counting tokens: %w", err)
	}
	view, err := wire.Parse(f, in.Body, nil)
	if err != nil {
		return len(in.Body) / 4, nil //nolint:nilerr // a request that is not understood goes upstream, too
	}
	for i := range view.Blocks {
		if b := &view.Blocks[i]; !b.Has(wire.FlagDeferred) {
			n += pricing.Tokens(view, b)
		}
	}
	return n, nil
}
