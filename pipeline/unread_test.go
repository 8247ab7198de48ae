// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Results after more text than is read are sent unmodified, and earlier ones are edited as usual,
// in a known and in a forgotten session.
func TestResultsBehindMuchText(t *testing.T) {
	s, forgotten := newScript(t, admitting(Eager), unbound), newScript(t, admitting(Eager), unbound)
	s.prompt("Look around.")
	s.send(wire.Turn{Text: "I look.", Done: true})
	for i, lines := range []int{50, 90_000, 91_000, 92_000, 60} {
		s.result(i, "Read", fmt.Sprintf(`{"file_path":"/src/%d.go"}`, i), read(lines))
	}
	first := s.send(s.answer)
	if size := len(s.body()); size < 9<<20 {
		t.Fatalf("a request of %d bytes", size)
	}
	s.prompt("Go on.")
	forgotten.messages = s.messages
	for name, x := range map[string]*Exchange{"first": first, "known": s.send(wire.Turn{Text: "Yes.", Done: true}), "forgotten": forgotten.send(wire.Turn{Text: "Yes.", Done: true})} {
		if n := count(x, stage.Admission); n != 3 {
			t.Errorf("%s: %d results are edited, want the three in front", name, n)
		}
		body := string(x.Prompt.Body)
		for lines, whole := range map[int]bool{50: false, 90_000: false, 91_000: false, 92_000: true, 60: true} {
			if strings.Contains(body, `"content":`+read(lines)) != whole {
				t.Errorf("%s: of %d lines, whole: %t", name, lines, !whole)
			}
		}
	}
}
