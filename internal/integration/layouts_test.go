// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"net/http"
	"strings"
	"testing"
)

// Each layout of a site has requests pass llm_cache, once, and reach the model.
func TestLayouts(t *testing.T) {
	model := newUpstream(t, answerMessage)
	guard := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.Header().Set("Remote-User", "anna") })
	proxy := "reverse_proxy " + strings.TrimPrefix(model.URL, "http://") + "\n"
	auth := "forward_auth " + strings.TrimPrefix(guard.URL, "http://") + " {\nuri /check\ncopy_headers Remote-User\n}\n"
	named := "&(proxy) {\n" + proxy + "}\n&(whole) {\nroute {\nllm_cache\n" + proxy + "}\n}\n"
	for name, c := range map[string]struct {
		site, path, want string // the paths that are asked for, and that the model is asked for
	}{
		"bare": {"llm_cache\n" + proxy, "/v1/messages", "/v1/messages"},
		"proxy in handle": {
			"llm_cache\nhandle /v1/* {\n" + proxy + "}\nhandle {\nrespond 404\n}", "/v1/messages",
			"/v1/messages",
		},
		"proxy in handle_path": {"llm_cache\nhandle_path /a/* {\n" + proxy + "}", "/a/v1/messages", "/v1/messages"},
		"proxy in route":       {"llm_cache\nroute /v1/* {\n" + proxy + "}", "/v1/messages", "/v1/messages"},
		"proxy invoked":        {"llm_cache\ninvoke proxy", "/v1/messages", "/v1/messages"},
		"in a named route":     {"invoke whole", "/v1/messages", "/v1/messages"},
		"in handle": {
			"handle /v1/* {\nllm_cache\n" + proxy + "}\nhandle {\nrespond 404\n}", "/v1/messages",
			"/v1/messages",
		},
		"in handle_path": {"handle_path /a/* {\nllm_cache\n" + proxy + "}", "/a/v1/messages", "/v1/messages"},
		"behind a rewrite": {
			"uri strip_prefix /a\nllm_cache\nhandle /v1/* {\n" + proxy + "}", "/a/v1/messages",
			"/v1/messages",
		},
		"behind forward_auth": {auth + "llm_cache\nhandle /v1/* {\n" + proxy + "}", "/v1/messages", "/v1/messages"},
		"behind encode": {
			"encode gzip\nllm_cache\nhandle /v1/* {\n" + proxy + "}", "/v1/messages",
			"/v1/messages",
		},
		"behind refusals": {"@stranger not header X-Api-Key *\nrespond @stranger 401\nllm_cache\nhandle /v1/* {\n" +
			proxy + "}", "/v1/messages", "/v1/messages"},
		"with a matcher":          {"llm_cache /v1/*\nhandle /v1/* {\n" + proxy + "}", "/v1/messages", "/v1/messages"},
		"order of the operator's": {"route {\nllm_cache\nhandle /v1/* {\n" + proxy + "}\n}", "/v1/messages", "/v1/messages"},
		"in handle_errors of all": {"error 503\nhandle_errors {\nllm_cache\n" + proxy + "}", "/v1/messages", "/v1/messages"},
		"two providers, the first": {"handle_path /a/* {\nllm_cache\n" + proxy + "}\nhandle_path /b/* {\nllm_cache\n" +
			proxy + "}", "/a/v1/messages", "/v1/messages"},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, "respond 404")
			p.move()
			var out []string
			for _, line := range warnings(func() { p.load(logged{}.into(p.config(c.site, named))) }) {
				if !strings.Contains(line, `"level":"info"`) {
					out = append(out, line)
				}
			}
			if len(out) > 0 {
				t.Errorf("warned without need: %s", out)
			}
			model.forget()
			r, err := http.NewRequest(http.MethodPost, "http://"+p.addr+c.path, strings.NewReader(conversation(1, false)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("X-Api-Key", "k")
			resp, err := p.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if got := resp.Header.Values("X-Llm-Cache-Session"); resp.StatusCode != http.StatusOK && c.site[:5] != "error" ||
				len(got) != 1 {
				t.Errorf("got status %d and X-Llm-Cache-Session %q, want 200 and one", resp.StatusCode, got)
			}
			if got := model.requests(); len(got) != 1 || got[0].path != c.want {
				t.Errorf("the model got %+v, want one request to %s", got, c.want)
			}
		})
	}
}

// What respond, error and abort keep out of a site, llm_cache does not even look at,
// though Caddy sorts them behind handle, and so behind llm_cache.
func TestRefusalsBehind(t *testing.T) {
	model := newUpstream(t, answerMessage)
	proxy := "reverse_proxy " + strings.TrimPrefix(model.URL, "http://") + "\n"
	const stranger = "@stranger not header X-Api-Key k\n"
	for name, c := range map[string]struct {
		site   string
		status int // 0: the connection ends
	}{
		"respond": {
			stranger + "respond @stranger 401\nllm_cache {\nhealth /health\n}\n" + proxy,
			http.StatusUnauthorized,
		},
		"error": {
			stranger + "error @stranger 403\nllm_cache {\nhealth /health\n}\n" + proxy,
			http.StatusForbidden,
		},
		"abort": {stranger + "abort @stranger\nllm_cache {\nhealth /health\n}\n" + proxy, 0},
		"in handle": {stranger + "handle @stranger {\nrespond 401\n}\nllm_cache {\nhealth /health\n}\nhandle {\n" +
			proxy + "}", http.StatusUnauthorized},
		"by another condition": {stranger + "respond /other 404\nrespond @stranger 401\nllm_cache {\nhealth /health\n}\n" +
			proxy, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, c.site)
			ask := func(method, path, key string) (int, string) {
				r, err := http.NewRequest(method, "http://"+p.addr+path, strings.NewReader(conversation(1, false)))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-Api-Key", key)
				resp, err := p.client.Do(r)
				if err != nil {
					return 0, ""
				}
				_ = resp.Body.Close()
				return resp.StatusCode, resp.Header.Get("X-Llm-Cache-Session")
			}
			for method, path := range map[string]string{http.MethodPost: "/v1/messages", http.MethodGet: "/health"} {
				if status, told := ask(method, path, "another"); status != c.status || told != "" {
					t.Errorf("%s for a stranger: got %d and X-Llm-Cache-Session %q, want %d and none", path, status, told, c.status)
				}
			}
			if status, told := ask(http.MethodPost, "/v1/messages", "k"); status != http.StatusOK || told == "" {
				t.Errorf("for a user: got %d and X-Llm-Cache-Session %q, want 200 and one", status, told)
			}
		})
	}
}
