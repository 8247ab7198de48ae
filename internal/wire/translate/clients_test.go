// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/golden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// clientBody is a request in the shape of a real client's. The number is the index of the format in
// Formats().
type clientBody struct {
	format byte
	body   string
}

// clientBodies returns the requests of testdata/clients.
func clientBodies(tb testing.TB) (out []clientBody) {
	tb.Helper()
	files, err := filepath.Glob("testdata/clients/*.txtar")
	if err != nil || len(files) == 0 {
		tb.Fatalf("no requests of clients: %v", err)
	}
	for _, file := range files {
		s := golden.Read(tb, file)[0]
		out = append(out, clientBody{
			format: byte(slices.Index(translate.Formats(), wire.Format(s.Args[0]))), body: golden.Compact(s.Text),
		})
	}
	return out
}
