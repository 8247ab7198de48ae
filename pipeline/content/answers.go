// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// AnswersTool reports whether a message answers a call. Such a message begins no task.
func AnswersTool(v *wire.View, m *wire.Message) bool {
	for i := m.First; i < m.End; i++ {
		switch v.Blocks[i].Kind {
		case wire.KindToolResult, wire.KindServerTool, wire.KindProgram:
			return true
		}
	}
	return false
}
