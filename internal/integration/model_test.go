// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// answerIn answers in the format of the request's path.
func answerIn(w http.ResponseWriter, r *http.Request, n int) {
	if strings.HasSuffix(r.URL.Path, "/chat/completions") {
		answerChat(w, r, n)
		return
	}
	answerMessage(w, r, n)
}

// Requests of one site go to the upstream of their model: translated where that speaks another format, byte
// for byte where a bare reverse_proxy stands behind the matcher. Requests without a model go where none is named.
func TestModelsChooseUpstreams(t *testing.T) {
	box, cloud, bare := newUpstream(t, answerIn), newUpstream(t, answerIn), newUpstream(t, answerIn)
	p := start(t, `@box llm_model local/*
handle @box {
	llm_cache {
		upstream ollama {
			model local/* *
		}
	}
	reverse_proxy `+box.Listener.Addr().String()+`
}
@bare llm_model raw-* *-raw
handle @bare {
	reverse_proxy `+bare.Listener.Addr().String()+`
}
handle {
	llm_cache {
		policy eager
		zones {
			frozen 0
			hot 1
			min_messages 0
		}
	}
	reverse_proxy `+cloud.Listener.Addr().String()+`
}`)
	named := func(model string) string {
		return strings.Replace(conversation(3, false), `"claude-opus-4-6"`, `"`+model+`"`, 1)
	}
	last := func(model string) string { // the model behind all the rest
		return strings.TrimSuffix(strings.Replace(conversation(3, false), `"model":"claude-opus-4-6",`, "", 1), "}") +
			`, "model" : "` + model + `" }`
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, last("a-raw"))
	_ = z.Close()

	for name, c := range map[string]struct {
		path, body, coding string
		to                 *upstream
		at, model          string // that the upstream gets
		same               bool   // the very bytes
	}{
		"to the box": {path: "/v1/messages", body: named("local/qwen3:8b"), to: box, at: "/v1/chat/completions", model: "qwen3:8b"},
		"to the box, model last": {
			path: "/v1/messages", body: last("local/a/b"), to: box, at: "/v1/chat/completions", model: "a/b",
		},
		"to the cloud": {
			path: "/v1/messages", body: named("claude-opus-4-6"), to: cloud, at: "/v1/messages", model: "claude-opus-4-6",
		},
		"to the cloud, no model": {path: "/v1/other", body: `{"models":[]}`, to: cloud, at: "/v1/other", same: true},
		"to the cloud, no JSON":  {path: "/v1/messages", body: `{"model":`, to: cloud, at: "/v1/messages", same: true},
		"bare":                   {path: "/v1/messages", body: named("raw-1"), to: bare, at: "/v1/messages", model: "raw-1", same: true},
		"bare, model last":       {path: "/v1/messages", body: last("a-raw"), to: bare, at: "/v1/messages", model: "a-raw", same: true},
		"bare, gzip":             {path: "/v1/messages", body: packed.String(), coding: "gzip", to: bare, at: "/v1/messages", same: true},
	} {
		before := len(c.to.requests())
		headers := []string{"X-Session-Id", name}
		if c.coding != "" {
			headers = append(headers, "Content-Encoding", c.coding)
		}
		res := p.post(c.path, c.body, headers...)
		if answer := read(t, res); res.StatusCode != http.StatusOK || !strings.Contains(answer, "Done.") {
			t.Errorf("%s: got %s, %s", name, res.Status, answer)
		}
		if len(c.to.requests()) != before+1 {
			t.Errorf("%s: another upstream got the request", name)
			continue
		}
		got := c.to.last()
		if got.path != c.at || gjson.Get(got.body, "model").Str != c.model && c.model != "" {
			t.Errorf("%s: got model %q at %s, want %q at %s", name, gjson.Get(got.body, "model"), got.path, c.model, c.at)
		}
		if c.same && (got.body != c.body || got.length != int64(len(c.body))) {
			t.Errorf("%s: got %d bytes that differ from the client's %d", name, got.length, len(c.body))
		}
	}

	// An edit shows that the handler reads what the matcher has read.
	edited := cloud.requests()[0]
	for _, r := range cloud.requests() {
		if gjson.Get(r.body, "model").Str == "claude-opus-4-6" {
			edited = r
		}
	}
	if len(edited.body) >= len(named("claude-opus-4-6")) {
		t.Errorf("got %d bytes at the upstream, want an edited request of less than %d", len(edited.body),
			len(named("claude-opus-4-6")))
	}
	for _, r := range append(bare.requests(), cloud.requests()...) {
		if strings.Contains(gjson.Get(r.body, "model").Str, "local/") {
			t.Errorf("%s for the box went elsewhere", r.path)
		}
	}

	// One list has the sessions of all upstreams, each with its own.
	var list struct {
		Sessions []struct {
			Upstream      string `json:"upstream"`
			Conversations []struct {
				Model string `json:"model"`
			} `json:"conversations"`
		} `json:"sessions"`
	}
	p.adminDo(http.MethodGet, "/llm_cache/sessions", &list)
	n := 0
	for _, s := range list.Sessions {
		if !strings.Contains(s.Upstream, p.host) {
			continue // of another test
		}
		for _, c := range s.Conversations {
			n++
			if local := strings.HasPrefix(c.Model, "local/"); local != strings.HasPrefix(s.Upstream, "ollama ") {
				t.Errorf("a session with the model %q is at %q", c.Model, s.Upstream)
			}
		}
	}
	if n != 3 {
		t.Errorf("got %d conversations in %+v, want 3", n, list)
	}
}

// A WebSocket has no model at its handshake: it goes where no model is named, with all its requests.
func TestModelOfWebSocket(t *testing.T) {
	box, cloud := newUpstream(t, answerIn), newUpstream(t, answerResponse)
	p := start(t, `@box llm_model *
handle @box {
	llm_cache
	reverse_proxy `+box.Listener.Addr().String()+`
}
handle {
	llm_cache {
		upstream openai
	}
	reverse_proxy `+cloud.Listener.Addr().String()+`
}`)
	s := p.socket(t)
	s.ask(`{"type":"response.create","model":"gpt-6","input":[{"type":"message","role":"user","content":"Hello."}]}`)
	if n := len(box.requests()); n != 0 || len(cloud.requests()) != 1 {
		t.Errorf("%d requests of the socket went by their model, %d with the handshake", n, len(cloud.requests()))
	}
}
