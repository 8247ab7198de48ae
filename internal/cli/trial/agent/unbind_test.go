// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
)

// A block carried over by a compaction is bound to a lost context. A client of a model that
// verifies the context leaves thinking out.
func TestUnbind(t *testing.T) {
	thinking, text := recording.Block{Type: "thinking"}, recording.Block{Type: "text"}
	messages := []recording.Message{{Content: []recording.Block{thinking, text}}, {Content: []recording.Block{thinking}}}
	shared := messages[0].Content
	Unbind(messages)
	if len(messages[0].Content) != 1 || messages[0].Content[0].Type != "text" || shared[0].Type != "thinking" {
		t.Errorf("%+v", messages[0])
	}
	if len(messages[1].Content) != 1 {
		t.Error("a message of thinking alone was emptied")
	}
}
