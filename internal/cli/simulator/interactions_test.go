// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// All content of a step reaches a client of the Interactions API, with and without a stream. The
// next request contains it as the step's answer.
func TestInteractions(t *testing.T) {
	long := strings.Repeat("Größe → ✅ <&> \"quoted\"\n", 20)
	script, err := ParseScript([]byte(`[{"thinking":` + string(encode(long)) + `,"text":"I look.","calls":[
		{"name":"run_shell_command","input":{"command":"ls -l <a>"}},{"name":"now"}]},{"text":"Done."}]`))
	if err != nil {
		t.Fatal(err)
	}
	const tools = `"tools":[{"type":"function","name":"now"}]`
	for _, stream := range []bool{false, true} {
		h := &Handler{Cache: newCache(t, "gemini"), Script: script}
		body := `{"model":"gemini-3.1-pro",` + tools + `,"input":[{"type":"user_input","content":"go"}`
		if stream {
			body = strings.Replace(body, "{", `{"stream":true,`, 1)
		}
		w := post(h, "/v1beta/interactions", body+`]}`)
		got := turn(t, wire.Interactions, stream, w)
		if got.Thinking != long || got.Text != "I look." || got.StopReason != "requires_action" ||
			got.Model != "gemini-3.1-pro" || !strings.HasPrefix(got.ID, "v1_") {
			t.Errorf("%+v", got)
		}
		if len(got.Calls) != 2 || got.Calls[0].Name != "run_shell_command" ||
			got.Calls[0].Arguments != `{"command":"ls -l <a>"}` || got.Calls[1].Arguments != "{}" {
			t.Fatalf("calls %+v", got.Calls)
		}
		if !got.Usage.Reported || got.Usage.Prompt() == 0 || got.Usage.Output == 0 {
			t.Errorf("usage %+v", got.Usage)
		}
		for _, c := range got.Calls {
			body += `,{"type":"function_call","id":"` + c.ID + `","name":"` + c.Name + `","arguments":` + c.Arguments + `}`
		}
		open := body
		for _, c := range got.Calls {
			body += `,{"type":"function_result","call_id":"` + c.ID + `","result":"ok"}`
		}
		if got := turn(t, wire.Interactions, stream, post(h, "/v1beta/interactions", body+`]}`)); got.Text != "Done." ||
			got.StopReason != "completed" {
			t.Errorf("the next step: %+v", got)
		}
		if w := post(h, "/v1beta/interactions", open+`]}`); w.Code != 400 ||
			!strings.Contains(w.Body.String(), `"code":"invalid_request"`) {
			t.Errorf("calls without results: %d %s", w.Code, w.Body)
		}
	}
}
