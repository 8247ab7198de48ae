// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Management implements [wire.Manager]. The Responses API has compaction, but no clearing edits.
func (Codec) Management(value gjson.Result) (m wire.Management) {
	value.ForEach(func(_, e gjson.Result) bool {
		m.Compacts = m.Compacts || strings.HasPrefix(e.Get("type").Str, "compact")
		return true
	})
	return m
}

// Applied implements [wire.Manager].
func (Codec) Applied(data []byte, _ wire.Cleared) []byte { return data }
