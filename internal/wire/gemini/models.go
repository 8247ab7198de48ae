// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Signs reports whether a Gemini model demands the signatures of its calls back: 3 and later.
func Signs(model string) bool {
	i := strings.Index(model, "gemini-")
	return i >= 0 && !strings.HasPrefix(model[i:], "gemini-1") && !strings.HasPrefix(model[i:], "gemini-2")
}

// Level returns the thinking level of a model for an effort.
func Level(model, effort string) string {
	if strings.Contains(model, "flash") {
		return translate.KnownEffort(effort, "minimal", "low", "medium", "high")
	}
	return translate.KnownEffort(effort, "low", "medium", "high")
}
