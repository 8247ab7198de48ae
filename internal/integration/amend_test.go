// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// TestAmendedRequests: a client waits for a model that its server loads, sees that something is at
// work, and gets an answer although the model cannot see the images of the conversation.
func TestAmendedRequests(t *testing.T) {
	seen := make(chan struct{})
	var u *upstream
	u = newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		status, answer := http.StatusServiceUnavailable,
			`{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`
		select {
		case <-seen:
			status, answer = http.StatusInternalServerError,
				`{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to `+
					`provide the mmproj","type":"server_error"}}`
			if !strings.Contains(u.last().body, "base64") {
				stream(chatEvents...)(w, r, n)
				return
			}
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	})
	p := start(t, "llm_cache {\n upstream llama_cpp\n queue\n heartbeat {\n every 1s\n open 1s\n}\n}\nreverse_proxy "+
		u.Listener.Addr().String())
	counts := func() (n [2]float64) {
		for i, by := range []string{"loading", "images"} {
			n[i] = p.metric(`caddy_llm_cache_amended_total{by="` + by + `"}`)
		}
		return n
	}
	before := counts()
	const image = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`
	body := strings.Replace(conversation(0, true), `"messages":[`, `"messages":[{"role":"user","content":[`+image+
		`,{"type":"text","text":"What is this?"}]},{"role":"assistant","content":"A cat."},`, 1)
	res := p.post("/v1/messages", body)
	lines := bufio.NewReader(res.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "event: ping\n" || res.StatusCode != http.StatusOK {
		t.Fatalf("the answer begins with %q, %v, %s; want a ping", line, err, res.Status)
	}
	close(seen)
	rest, err := io.ReadAll(lines)
	if turn := turnOf(wire.Anthropic, true, string(rest)); err != nil || !turn.Done || turn.Text != `I "look".` {
		t.Errorf("got %+v, %v of\n%s", turn, err, rest)
	}
	if sent := u.last().body; !strings.Contains(sent, "[An image was attached here, which this model cannot see.]") {
		t.Errorf("no note in %s", sent)
	}
	requests := len(u.requests())
	if read(t, p.post("/v1/messages", body)); len(u.requests()) != requests+1 {
		t.Errorf("the model was asked %d times again, want once, without images", len(u.requests())-requests)
	}
	if after := counts(); after[0] != before[0]+1 || after[1] != before[1]+1 {
		t.Errorf("counted %v, want one of each more than %v", after, before)
	}
}

// TestLengthBeyondTheWindow: clients get an answer although they ask for more than the window has room for,
// be their requests translated or not.
func TestLengthBeyondTheWindow(t *testing.T) {
	var u *upstream
	u = newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if sent := u.last().body; max(gjson.Get(sent, "max_tokens").Int(),
			gjson.Get(sent, "max_completion_tokens").Int()) <= 15309 {
			answerChat(w, r, n)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w,
			`{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context `+
				`length is 32768 tokens and your request has 17459 input tokens (64000 > 32768 - 17459).",`+
				`"type":"BadRequestError","param":"max_tokens","code":400}}`)
	})
	for _, preset := range []string{"vllm", "{\n format openai_chat\n}"} {
		p := start(t, behind(u, preset))
		for path, format := range map[string]wire.Format{
			"/v1/messages":         wire.Anthropic,
			"/v1/chat/completions": wire.OpenAIChat,
		} {
			res := p.post(path, `{"model":"m","max_tokens":64000,"messages":[{"role":"user","content":"Hi"}]}`)
			got := read(t, res)
			if turn := turnOf(format, false, got); res.StatusCode != http.StatusOK || turn.Text != "Done." {
				t.Errorf("%s, %s: got %s and %s, want an answer", preset, path, res.Status, got)
			}
		}
	}
}

// TestToolsAddedNatively: oMLX, which refuses blocks that add tools, gets a text in their place.
func TestToolsAddedNatively(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, behind(u, "omlx"))
	const body = `{"model":"m","max_tokens":100,"tools":[{"name":"Read","input_schema":{"type":"object"}},` +
		`{"name":"Write","defer_loading":true,"input_schema":{"type":"object"}}],` +
		`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t1",` +
		`"name":"Read","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]},` +
		`{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_reference","name":"Write"}}]}]}`
	for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
		read(t, p.post(path, body, "Anthropic-Beta", "mid-conversation-tool-changes-2026-07-01"))
		sent := u.last().body
		if strings.Contains(sent, "tool_addition") || !strings.Contains(sent, "From here on there is a tool Write.") ||
			gjson.Get(sent, "tools.1.name").Str != "Write" {
			t.Errorf("%s: sent %s", path, sent)
		}
	}
}
