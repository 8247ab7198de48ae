// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ReadRecording writes a conversation of 70 requests. In each the agent runs a command, for half a
// second, and reads the output. The user speaks before every tenth request, after a pause in
// seconds. It returns the file's path.
func ReadRecording(t testing.TB, pause float64) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`{"agent":"pi","session":"s","prompt_fit":{"overhead_tokens":3000}}` + "\n")
	at := 0.0
	for i := range 70 {
		said := fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"Task %d."}]}`, i)
		switch {
		case i == 0:
		case i%10 == 0:
			at += pause
			said = `{"role":"assistant","content":[{"type":"text","text":"It is done."}]},` + said
		default:
			at += 0.5
			var lines strings.Builder
			for n := range 150 {
				fmt.Fprintf(&lines, `line %d of step %d, with some words in it\n`, n, i)
			}
			said = fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":"Let me look at step %d."},`+
				`{"type":"tool_use","id":"t%d","name":"bash","input":{"command":"make step%d"}}]},`, i, i, i) +
				fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":"%s"}]}`, i, &lines)
		}
		fmt.Fprintf(&b, `{"t":%g,"t_end":%g,"messages":[%s]}`+"\n", at, at+2, said)
		at += 2
	}
	file := filepath.Join(t.TempDir(), "pi-s-p1.jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
