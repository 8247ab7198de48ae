// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

const interacted = `{"id":"v1_1","object":"interaction","status":"completed","model":"gemini-3.1-pro",` +
	`"steps":[{"type":"model_output","content":[{"type":"text","text":"Done."}]}],"usage":{"total_tokens":2010,` +
	`"total_input_tokens":2000,"total_cached_tokens":1234,"total_output_tokens":10}}`

func answerInteraction(w http.ResponseWriter, _ *http.Request, _ int) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, interacted)
}

// interactionTurns is a conversation with so many calls.
func interactionTurns(n int) string {
	body := `{"model":"gemini-3.1-pro","store":false,"tools":[{"type":"function","name":"Read","parameters":{}}],` +
		`"input":[{"type":"user_input","content":[{"type":"text","text":"Fix the build."}]}`
	for i := range n {
		body += fmt.Sprintf(`,{"type":"thought","signature":"c2ln"},{"type":"function_call","id":"c%d","name":"Read",`+
			`"arguments":{"file_path":"/src/file%d.go"}},{"type":"function_result","call_id":"c%d","name":"Read","result":%s}`,
			i, i, i, js(strings.Repeat(fmt.Sprintf("line of file %d\n", i), 40)))
	}
	return body + `,{"type":"user_input","content":[{"type":"text","text":"Go on."}]}]}`
}

// TestInteractions: where the history stands in the request it is edited, and nothing
// else in it; what is signed stays.
func TestInteractions(t *testing.T) {
	u := newUpstream(t, answerInteraction)
	p := start(t, eager(u))
	body := interactionTurns(9)
	res := p.post("/v1beta/interactions", body)
	if read(t, res) != interacted || res.Header.Get("X-Llm-Cache-Cached-Tokens") != "1234" {
		t.Errorf("headers %v", res.Header)
	}
	sent := u.last()
	if sent.path != "/v1beta/interactions" || len(sent.body) >= len(body) || !gjson.Valid(sent.body) {
		t.Fatalf("%s: %d bytes of %d", sent.path, len(sent.body), len(body))
	}
	was, is := gjson.Get(body, "input").Array(), gjson.Get(sent.body, "input").Array()
	if len(was) != len(is) {
		t.Fatalf("%d steps of %d", len(is), len(was))
	}
	edited := 0
	for i := range was {
		switch {
		case was[i].Raw == is[i].Raw:
		case was[i].Get("type").Str == "function_result" && was[i].Get("call_id").Raw == is[i].Get("call_id").Raw:
			edited++
		default:
			t.Errorf("step %d became %s", i, is[i].Raw)
		}
	}
	if edited == 0 {
		t.Error("nothing was edited")
	}
}

// TestInteractionsUntouched: what the provider holds the history of, or makes on its
// own, is sent as it came and counted.
func TestInteractionsUntouched(t *testing.T) {
	u := newUpstream(t, answerInteraction)
	p := start(t, eager(u))
	const tokens = `caddy_llm_cache_tokens_total{bucket="read"}`
	before := p.metric(tokens)
	members := []string{
		`"previous_interaction_id":"v1_0"`, `"agent":"deep-research"`, `"background":true`,
		`"cached_content":"cachedContents/1"`, `"environment":{}`, `"continuation_token":"t"`,
	}
	for _, member := range members {
		body := strings.Replace(interactionTurns(9), "{", "{"+member+",", 1)
		res := p.post("/v1beta/interactions", body)
		if res.StatusCode != http.StatusOK || read(t, res) != interacted || u.last().body != body {
			t.Errorf("%s: status %d, %d bytes of %d", member, res.StatusCode, len(u.last().body), len(body))
		}
	}
	if got := p.metric(tokens) - before; got != 1234*float64(len(members)) {
		t.Errorf("%v tokens counted as read", got)
	}
	for _, path := range []string{"/v1beta/interactions/v1_1/cancel", "/v1beta/interactions/v1_1"} {
		res := p.post(path, interactionTurns(9))
		if read(t, res); res.Header.Get("X-Llm-Cache-Session") != "" || u.last().body != interactionTurns(9) {
			t.Errorf("%s was read", path)
		}
	}
}

// TestInteractionsTranslated: an upstream that speaks another format cannot hold a
// conversation; the client hears so as its API would say it, and all else is carried.
func TestInteractionsTranslated(t *testing.T) {
	u := newUpstream(t, stream(chatEvents...))
	p := start(t, behind(u, "mlx_lm"))
	for _, member := range []string{`"previous_interaction_id":"v1_0"`, `"agent":"deep-research"`, `"background":true`} {
		n := len(u.requests())
		res := p.post("/v1beta/interactions", `{"model":"m","input":"Hi",`+member+`}`)
		got := read(t, res)
		field, _, _ := strings.Cut(strings.TrimPrefix(member, `"`), `"`)
		if res.StatusCode != http.StatusBadRequest || gjson.Get(got, "error.code").Str != "invalid_request" ||
			!strings.Contains(gjson.Get(got, "error.message").Str, field) || len(u.requests()) != n {
			t.Errorf("%s: status %d, %s", member, res.StatusCode, got)
		}
	}
	res := p.post("/v1beta/interactions", `{"model":"m","stream":true,"input":"Hi"}`, "Api-Revision", "2026-05-20")
	got := read(t, res)
	turn := turnOf(wire.Interactions, true, got)
	if !turn.Done || turn.Text != `I "look".` || len(turn.Calls) != 2 || turn.StopReason != "requires_action" ||
		!strings.HasSuffix(got, "event: done\ndata: [DONE]\n\n") {
		t.Errorf("turn is %+v of\n%s", turn, got)
	}
	if u.last().header.Get("Api-Revision") != "" {
		t.Error("a header of the client's API went on")
	}
}
