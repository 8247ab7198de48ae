// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"
)

// codexWithTools is a request of Codex with its tools in the list of the request, as with
// gpt-5-codex, after so many turns.
func codexWithTools(turns int, tools, more string) string {
	var b strings.Builder
	b.WriteString(`{"model":"gpt-5-codex","instructions":"You are Codex.","input":[{"type":"message","role":"user",` +
		`"content":[{"type":"input_text","text":"Fix the build."}]}`)
	for i := range turns {
		fmt.Fprintf(&b, `,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Step %d."}]}`, i)
		fmt.Fprintf(&b, `,{"type":"message","role":"user","content":[{"type":"input_text","text":"Go on, %d."}]}`, i)
	}
	b.WriteString(more + `],"tools":` + tools +
		`,"tool_choice":"auto","parallel_tool_calls":false,"store":false,"prompt_cache_key":"0198-codex"}`)
	return b.String()
}

// TestSummaryWithTools: a request for a summary without tools gets those of its
// conversation, so that the cache has it; that of another tenant, and one that is
// refused for it, go as the client wrote them.
func TestSummaryWithTools(t *testing.T) {
	const (
		tools   = `[{"type":"function","name":"shell","parameters":{"type":"object"}}, {"type":"web_search"}]`
		summons = `,{"type":"message","role":"user","content":[{"type":"input_text","text":"You are performing a CONTEXT ` +
			`CHECKPOINT COMPACTION. Create a handoff summary."}]}`
		edits = `caddy_llm_cache_edits_total{stage="tools"}`
	)
	var refusing atomic.Bool
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if refusing.CompareAndSwap(true, false) {
			http.Error(w, `{"error":{"message":"Invalid value: 'tools'.","type":"invalid_request_error","param":"tools"}}`,
				http.StatusBadRequest)
			return
		}
		answerResponse(w, r, n)
	})
	p := start(t, plain(u))
	before := p.metric(edits)
	send := func(key, body string) {
		t.Helper()
		if res := p.post("/v1/responses", body, "Authorization", "Bearer "+key); res.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", res.StatusCode, read(t, res))
		} else {
			read(t, res)
		}
	}
	for turns := range 4 {
		send("one", codexWithTools(turns, tools, ""))
	}
	asked := codexWithTools(4, "[]", summons)
	send("two", asked)
	if got := u.last().body; got != asked {
		t.Errorf("another tenant's request went out as %s", got)
	}
	send("one", asked)
	got := u.last().body
	if gjson.Get(got, "tools").Raw != tools || gjson.Get(got, "tool_choice").Str != "none" {
		t.Errorf("the upstream got tools %s, choice %s", gjson.Get(got, "tools"), gjson.Get(got, "tool_choice"))
	}
	want := strings.NewReplacer(`"tools":[]`, `"tools":`+tools, `"tool_choice":"auto"`,
		`"tool_choice":"none"`).Replace(asked)
	if got != want {
		t.Errorf("the upstream got %s", got)
	}
	if n := p.metric(edits) - before; n != 1 {
		t.Errorf("%v edits are counted", n)
	}
	refusing.Store(true)
	send("one", asked)
	if sent := u.requests(); sent[len(sent)-2].body != want || sent[len(sent)-1].body != asked {
		t.Errorf("after a refusal the upstream got %s", sent[len(sent)-1].body)
	}
}
