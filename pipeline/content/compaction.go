// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Compacts reports whether the request asks for a summary of the conversation, to continue in a new
// one.
func Compacts(v *wire.View) bool {
	blocks := v.MessageBlocks()
	for i := len(blocks) - 1; i >= 0 && blocks[i].Role == wire.RoleUser; i-- {
		switch b := &blocks[i]; {
		case b.Kind == wire.KindText && asksForSummary(string(v.Bytes(b.Body))):
			return true
		case b.Kind == wire.KindOther && gjson.GetBytes(v.Bytes(b.Span), "type").Str == "compaction_trigger":
			return true
		}
	}
	return false
}

// summons are the beginnings of coding agents' requests for a summary.
var summons = []string{
	"CRITICAL: Respond with TEXT ONLY", "You are performing a CONTEXT CHECKPOINT COMPACTION", "Your task is to create a detailed summary of the conversation",
	"First, reason in your scratchpad. Then, generate the <state_snapshot>",
}

func asksForSummary(body string) bool {
	for _, s := range summons {
		if strings.Contains(body[:min(len(body), 400)], s) {
			return true
		}
	}
	return false
}
