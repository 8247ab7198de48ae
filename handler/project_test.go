// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// TestPromptProject: each client's prompt tells the last element of its working directory, and no other
// text does.
func TestPromptProject(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"Claude Code", "<env>\n - Primary working directory: /home/anna/src/shop\n - Is a git repository: true", "shop"},
		{"opencode", "<env>\n  Working directory: /srv/my shop\n  Is directory a git repo: yes\n</env>", "my shop"},
		{"Codex", "<environment_context>\n  <cwd>/home/anna/shop</cwd>\n  <shell>bash</shell>", "shop"},
		{"Gemini CLI", "- **Workspace Directories:**\n  - /home/anna/shop\n- **Directory Structure:**", "shop"},
		{"Qwen Code", "I'm currently working in the directory: /home/anna/shop\nHere is", "shop"},
		{"Cline", "# Current Working Directory (/home/anna/shop) Files\nmain.go", "shop"},
		{"Windows", "Working directory: C:\\new\\repo\\\nPlatform: win32", "repo"},
		{"a share", "Working directory: \\\\nas\\team\\repo\nPlatform: win32", "repo"},
		{"the end of the text", "Working directory: /home/anna/shop", "shop"},
		{"other letters", "Working directory: /home/anna/Büro\u0007\nPlatform", "Büro"},
		{"the root", "Working directory: /\nPlatform", ""},
		{"prose", "The working directory: if not specified, the current one. Working directory: /a/b\n", "b"},
		{"no folder", "Fix the working directory: please", ""},
		{"a long name", "Working directory: /" + strings.Repeat("ü", 100) + "\n", strings.Repeat("ü", 32)},
		{"too long a path", "Working directory: /" + strings.Repeat("a/", maxFolder) + "b\n", "a"},
	} {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(c.text); err != nil {
			t.Fatal(err)
		}
		for format, body := range map[wire.Format]string{
			wire.Anthropic: `{"model":"m","max_tokens":1,"system":[{"type":"text","text":"x"}],` +
				`"messages":[{"role":"user","content":`,
			wire.OpenAIChat: `{"model":"m","messages":[{"role":"system","content":"x"},{"role":"user","content":`,
		} {
			view, err := wire.Parse(format, []byte(body+text.String()+`},{"role":"assistant","content":"<cwd>/no</cwd>"},`+
				`{"role":"user","content":"go on"}]}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := promptProject(view); got != c.want {
				t.Errorf("%s, %s: got %q, want %q", c.name, format, got, c.want)
			}
		}
	}
}

// TestCodexProject: the repository has the name of its origin, or else that of its folder.
func TestCodexProject(t *testing.T) {
	const repository = `{"turn_id":"1","workspaces":{"/home/anna/shop-2":{"latest_git_commit_hash":"1",` +
		`"associated_remote_urls":{"origin":"`
	for metadata, want := range map[string]string{
		"":                      "",
		`{"turn_id":"1"}`:       "",
		`{"workspaces":{}}`:     "",
		`{"workspaces":"shop"}`: "",
		`{"workspaces":{"/home/anna/shop":{"has_changes":true}}}`:            "shop",
		`{"workspaces":{"/":{},"C:\\Users\\anna\\shop":{}}}`:                 "shop",
		repository + `git@github.com:acme/shop.git"}}}}`:                     "shop",
		repository + `https://user:token@git.example.com/acme/shop.git"}}}}`: "shop",
		repository + `host:shop"}}}}`:                                        "shop",
	} {
		if got := codexProject(metadata); got != want {
			t.Errorf("%s: got %q, want %q", metadata, got, want)
		}
	}
	view, err := wire.Parse(wire.OpenAIResponses, []byte(`{"model":"m","input":"hi","client_metadata":{`+
		`"x-codex-turn-metadata":"{\"workspaces\":{\"/home/anna/shop\":{}}}"}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := promptProject(view); got != "shop" {
		t.Errorf("in the body: got %q, want shop", got)
	}
}

// TestProjectOrder: the option counts first, then tags, then Codex's metadata, then the prompt; and the
// session keeps what the prompt said.
func TestProjectOrder(t *testing.T) {
	h := attached(t, pipeline.Options{Policy: pipeline.CostAware})
	h.site.clients.project = []string{"{http.request.header.X-Empty}", "{http.request.header.X-Project}"}
	const history = `"messages":[{"role":"user","content":"Working directory: /src/by-prompt\n"}`
	ask := func(start, more string, headers ...string) string {
		t.Helper()
		body := []byte(start + more + `]}`)
		r := request(body, "s")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		repl := caddyhttp.NewTestReplacer(r)
		r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl))
		x := prepared(t, h, r, body)
		t.Cleanup(x.release) // without an answer, the session is kept by its use
		return x.record.Project
	}
	const plain, tagged = `{"model":"claude-opus-4-6","max_tokens":1,` + history,
		`{"model":"claude-opus-4-6","max_tokens":1,"tags":{"team":"by-tag"},` + history
	codex := []string{headerCodexTurn, `{"workspaces":{"/src/by-codex":{}}}`}
	for _, c := range []struct {
		name, start, more string
		headers           []string
		want              string
	}{
		{"prompt", plain, "", nil, "by-prompt"},
		{"Codex", plain, "", codex, "by-codex"},
		{"tags", tagged, "", codex, "by-tag"},
		{"option", tagged, "", append([]string{"X-Project", "by-option"}, codex...), "by-option"},
		{
			"later", `{"model":"claude-opus-4-6","max_tokens":1,"messages":[{"role":"user","content":"compacted"}`, "", nil,
			"by-prompt",
		},
	} {
		if got := ask(c.start, c.more, c.headers...); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	for tags, want := range map[string]string{
		`{"team":"a","project":"b","other":"c"}`: "b", `{"team":"/home/anna/a"}`: "a", `{"n":1,"m":null}`: "", `null`: "",
		`["a","b"]`: "a", `{"team":" \u0000a\u001b[31m "}`: "a[31m",
	} {
		view, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","max_tokens":1,"tags":`+tags+`,`+
			`"messages":[{"role":"user","content":"hi"}]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := taggedProject(view); got != want {
			t.Errorf("tags %s: got %q, want %q", tags, got, want)
		}
	}
}

func BenchmarkPromptProject(b *testing.B) {
	text, _ := json.Marshal(strings.Repeat("Some instructions for the agent.\n", 900))
	view, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","max_tokens":1,"system":`+string(text)+`,`+
		`"messages":[{"role":"user","content":"Working directory: /src/shop\n"}]}`), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if promptProject(view) != "shop" {
			b.Fatal("no project")
		}
	}
}
