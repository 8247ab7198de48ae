// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	caddy.RegisterModule(breaksOff{})
	httpcaddyfile.RegisterHandlerDirective("break_off", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		b := new(breaksOff)
		return b, b.UnmarshalCaddyfile(h.Dispenser)
	})
}

// breaksOff is a handler that sends a header and the beginning of a body, and then
// returns an error.
type breaksOff struct {
	Type   string `json:"type"`
	Begins string `json:"begins"`
}

func (breaksOff) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.break_off", New: func() caddy.Module { return new(breaksOff) }}
}

func (b *breaksOff) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.Args(&b.Type, &b.Begins) {
		return d.ArgErr()
	}
	return nil
}

func (b breaksOff) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", b.Type)
	w.WriteHeader(http.StatusOK)
	if _, err := io.WriteString(w, b.Begins); err != nil {
		return err
	}
	_ = http.NewResponseController(w).Flush()
	return caddyhttp.Error(http.StatusTeapot, errors.New("of a test"))
}

// outcome is all that a client sees of an answer.
func (p *proxy) outcome(body string) string {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://"+p.addr+"/v1/messages",
		strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := p.client.Do(req)
	if err != nil {
		return "no answer"
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return fmt.Sprintf("%d, %s, %s, whole: %t", res.StatusCode, res.Header.Get("Content-Type"), answer, err == nil)
}

// TestErrorAfterHeaders: a handler behind that fails after it has begun an answer, with
// routes for errors and without, leaves the client with what bare Caddy does. A stream that
// is written anew, event by event, is cut, and of an answer that waits for its end there is
// nothing but the error.
func TestErrorAfterHeaders(t *testing.T) {
	const begun = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\"," +
		"\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null," +
		"\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0," +
		"\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0," +
		"\"delta\":{\"type\":\"text_delta\",\"text\":\"Hel\"}}\n\n"
	const chat = "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0," +
		"\"delta\":{\"role\":\"assistant\",\"content\":\"Hel\"},\"finish_reason\":null}]}\n\n"
	handlers := map[string]string{
		"": "",
		", with a route for errors": "\nhandle_errors {\nrespond `{\"type\":\"error\",\"error\":{\"type\":\"api_error\"," +
			"\"message\":\"routed\"}}` 500\n}",
	}
	for _, c := range []struct {
		name   string
		stream bool
		begins string
	}{
		{"stream", true, "break_off text/event-stream `" + begun + "`"},
		{"document", false, "break_off application/json `{\"type\":\"message\",`"},
	} {
		for routed, errs := range handlers {
			p := start(t, "route {\n "+c.begins+"\n}"+errs)
			body := conversation(4, c.stream)
			bare := p.outcome(body)
			for name, site := range map[string]string{
				"plain": "llm_cache", "edited": "llm_cache {\n policy eager\n}",
				"audited": "llm_cache {\n upstream anthropic\n}",
			} {
				t.Run(name+", "+c.name+routed, func(t *testing.T) {
					p.reload("route {\n " + site + "\n " + c.begins + "\n}" + errs)
					if got := p.outcome(body); got != bare {
						t.Errorf("got  %s\nbare %s", got, bare)
					}
				})
			}
			for name, site := range map[string]string{
				"translated": "llm_cache {\n upstream {\n format openai_chat\n }\n}", "box": "llm_cache {\n upstream mlx_lm\n}",
				"held": "llm_cache {\n buffer_tool_calls on\n}", "expand": "llm_cache {\n" + eagerly + "prune {\n after 1\n }\n}",
			} {
				t.Run(name+", "+c.name+routed, func(t *testing.T) {
					behind := c.begins
					switch {
					case name == "held" && !c.stream:
						t.Skip("is not held")
					case name == "held", name == "expand":
					case c.stream:
						behind = "break_off text/event-stream `" + chat + "`"
					default:
						behind = "break_off application/json `{\"id\":`"
					}
					p.reload("route {\n " + site + "\n " + behind + "\n}" + errs)
					got := p.outcome(body)
					failed := strings.HasPrefix(got, "5") || strings.HasPrefix(got, "418")
					cut := strings.HasPrefix(got, "200") && strings.Contains(got, "Hel") && strings.HasSuffix(got, "whole: false") &&
						!strings.Contains(got, "message_stop")
					if c.stream && !cut || !c.stream && !failed {
						t.Errorf("got %s", got)
					}
				})
			}
		}
	}
}
