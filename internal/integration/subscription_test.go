// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// TestSubscription: the windows of a subscription come from headers and from events, for those who have
// one; the page, the user's sessions and the records have them, and the client gets its headers as they came.
func TestSubscription(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.db")
	resets := time.Now().Add(time.Hour).Truncate(time.Second)
	var used float64
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		switch h := w.Header(); r.Header.Get("X-Api-Key") {
		case "sk-claude":
			h.Set("Anthropic-Ratelimit-Unified-5h-Utilization", fmt.Sprint(used))
			h.Set("Anthropic-Ratelimit-Unified-5h-Reset", fmt.Sprint(resets.Unix()))
			h.Set("Anthropic-Ratelimit-Unified-5h-Status", "allowed")
		case "sk-codex":
			h.Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"type":"codex.rate_limits","plan_type":"plus","rate_limits":{"primary":{"used_percent":`+
				fmt.Sprint(used*100)+`,"window_minutes":300,"reset_at":`+fmt.Sprint(resets.Unix())+"}}}\n\n"+
				`data: {"type":"response.created","response":{"id":"resp_1","model":"gpt-6.1-sol"}}`+"\n\n"+
				`data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[{"type":"message",`+
				`"role":"assistant","content":[{"type":"output_text","text":"Hi."}]}],"usage":{"input_tokens":9,"output_tokens":1}}}`+"\n\n")
			return
		}
		answerMessage(w, r, n)
	})
	p := start(t, "respond 204")
	p.budgeted(u, sqliteAt(file, ""), `{"name":"carla","keys":["sk-claude"]},{"name":"cleo","keys":["sk-codex"]}`)
	get := func(path string) (body string) {
		p.adminDo(http.MethodGet, path, &body)
		return body
	}
	claude := func(key string) {
		res := p.post("/v1/messages", conversation(1, false), "X-Api-Key", key, "X-Session-Id", "s-"+key)
		if got := res.Header.Get("Anthropic-Ratelimit-Unified-5h-Utilization"); key == "sk-claude" && got != fmt.Sprint(used) {
			t.Errorf("the client of a subscription gets %q", got)
		}
		read(t, res)
	}
	codex := func() {
		read(t, p.post("/backend-api/codex/responses", `{"model":"gpt-6.1-sol","stream":true,"store":false,"input":[{"role":"user",`+
			`"content":"go"}]}`, "X-Api-Key", "sk-codex", "Session-Id", "s-codex", "Chatgpt-Account-Id", "acc"))
	}
	claude("sk-anna")
	for _, used = range []float64{0.25, 0.28, 0.31} {
		claude("sk-claude")
		codex()
	}

	const want = `[["carla","claude 5h",0.31,true],["cleo","codex 5h",0.31,true]]`
	var shown []string
	page := gjson.Parse(get("/llm_cache/data"))
	for _, w := range page.Get("windows").Array() {
		if at := w.Get("resets").Time(); !at.Equal(resets) {
			t.Errorf("a window resets at %v, want %v", at, resets)
		}
		shown = append(shown, fmt.Sprintf(`["%s","%s",%.2f,%t]`, w.Get("user").Str, w.Get("name").Str, w.Get("used").Num,
			w.Get("saved_points").Exists()))
	}
	if got := "[" + strings.Join(shown, ",") + "]"; got != want {
		t.Errorf("the page has %s, want %s", got, want)
	}
	for client, want := range map[string]string{
		"s-sk-claude": `["claude 5h"]`, "s-codex": `["codex 5h"]`, "s-sk-anna": "",
	} {
		if got := gjson.Get(get("/llm_cache/sessions?client="+client), "sessions.0.windows.#.name").Raw; got != want {
			t.Errorf("session %s has the windows %s, want %s", client, got, want)
		}
	}

	kept := map[string]int{}
	for _, r := range turns(t, file, 7) {
		for _, w := range r.Windows {
			kept[r.User+" "+w.Name]++
		}
	}
	if kept["carla claude 5h"] != 3 || kept["cleo codex 5h"] != 3 || len(kept) != 2 {
		t.Errorf("on record are %v, want 3 of carla and 3 of cleo", kept)
	}
}
