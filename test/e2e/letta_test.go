// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/process"
)

// letta is Letta's App Server with an agent that needs no model: it answers "pong".
type letta struct {
	addr, home string
	env        []string
	packages   string
	process    *exec.Cmd
}

// startLetta starts the server until the test ends.
func startLetta(t *testing.T) *letta {
	t.Helper()
	needCaddy(t)
	l := &letta{home: t.TempDir(), packages: os.Getenv("LLM_CACHE_LETTA")}
	if l.packages == "" {
		lacking(t,
			"Letta's App Server: set LLM_CACHE_LETTA to a folder with the unpacked package in package/; .ci/run tells which")
	}
	if !isolated {
		lacking(t, "a network namespace: Letta is only run where it can reach nothing but this machine")
	}
	addrs, err := caddy.FreeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	l.addr = addrs[0]
	l.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + l.home, "TMPDIR=" + l.home, "LANG=C.UTF-8", "DO_NOT_TRACK=1",
		"LETTA_LOCAL_BACKEND_EXPERIMENTAL=1",
		"LETTA_LOCAL_BACKEND_EXECUTOR=deterministic", "DISABLE_AUTOUPDATER=1",
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if out, err := l.command(ctx, "--backend", "local", "agents", "create", "--name",
		"coder").CombinedOutput(); err != nil {
		t.Fatalf("creating an agent: %v\n%s", err, out)
	}
	l.start(t)
	t.Cleanup(l.stop)
	return l
}

func (l *letta) command(ctx context.Context, args ...string) *exec.Cmd {
	node := os.Getenv("LLM_CACHE_NODE")
	if node == "" {
		node = "node"
	}
	cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join(l.packages, "package", "letta.js")}, args...)...)
	cmd.Dir, cmd.Env = l.home, l.env
	process.Group(cmd) // what it starts ends with it
	return cmd
}

func (l *letta) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(l.home, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	l.process = l.command(context.Background(), "server", "--backend", "local", "--listen", "ws://"+l.addr, "--openai-api")
	l.process.Stdout, l.process.Stderr = log, log
	if err := l.process.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		res, err := http.Get("http://" + l.addr + "/v1/models") //nolint:noctx // it answers at once or not at all
		if err == nil {
			_ = res.Body.Close()
			return
		}
		if time.Now().After(end) {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("Letta does not answer: %v\n%s", err, said)
		}
	}
}

func (l *letta) stop() {
	if l.process == nil {
		return
	}
	_ = process.Kill(l.process.Process)
	_ = l.process.Wait()
	l.process = nil
}

func (l *letta) conversations() string {
	return filepath.Join(l.home, ".letta", "lc-local-backend", "conversations")
}

// texts returns the agent's stored texts of the conversation up to a response, without the server's
// additions to messages.
func (l *letta) texts(t *testing.T, answer string) (all []string) {
	t.Helper()
	cursor, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(answer, "resp_letta_"))
	if err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	name := base64.RawURLEncoding.EncodeToString([]byte("conversation:" + gjson.GetBytes(cursor, "conversation_id").Str))
	raw, err := os.ReadFile(filepath.Join(l.conversations(), name, "messages.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	err = eachLine(raw, func(line []byte) error {
		m := gjson.GetBytes(line, "message")
		said := ""
		for _, p := range m.Get("content").Array() {
			if text := p.Get("text").Str; !strings.HasPrefix(text, "<system-reminder>") || strings.Contains(text, lettaSystem) {
				said += text
			}
		}
		if role := m.Get("role").Str; role != "" && said != "" {
			all = append(all, role+": "+said)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

const lettaSystem = "You answer by one word."

// Ten turns of a chat client that sends its whole conversation each time. Letta gets new messages
// only. It is restarted once and loses its data once. In the end the agent has the whole
// conversation, with the system prompt once.
func TestLetta(t *testing.T) {
	t.Parallel()
	l := startLetta(t)
	s := startStack(t, setup{cache: "upstream letta", upstream: l.addr, audit: true})
	messages := []any{object{"role": "system", "content": lettaSystem}}
	var want []string
	last := ""
	for turn := range 10 {
		switch turn {
		case 4:
			l.stop()
			l.start(t)
		case 7:
			l.stop()
			if err := os.RemoveAll(l.conversations()); err != nil {
				t.Fatal(err)
			}
			l.start(t)
		}
		question := fmt.Sprintf("Question %d: what follows ping?", turn+1)
		messages = append(messages, object{"role": "user", "content": question})
		body, err := json.Marshal(object{"model": "coder", "messages": messages, "stream": turn%2 == 0})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions",
			bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || !bytes.Contains(raw, []byte("pong")) {
			t.Fatalf("turn %d: %s, %v: %s", turn, res.Status, err, raw)
		}
		retained := res.Header.Get("X-Llm-Cache-Retained")
		wanted := map[int]string{0: "whole; cause=new", 7: "whole; cause=response_not_found"}[turn]
		if wanted == "" {
			wanted = "delta"
		}
		if !strings.HasPrefix(retained, wanted) {
			t.Errorf("turn %d went %q, want %q", turn, retained, wanted)
		}
		messages = append(messages, object{"role": "assistant", "content": "pong"})
		want = append(want, "user: "+question, "assistant: pong")
		last = "resp_letta_" + between(string(raw), "resp_letta_", `"`)
	}
	want = append([]string{"user: <system-reminder>\n" + lettaSystem + "\n</system-reminder>\n\n" + quoted(want[:14]) +
		strings.TrimPrefix(want[14], "user: ")}, want[15:]...)
	if got := l.texts(t, last); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the agent has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i, r := range s.records(t, 10) {
		if r.Outcome != "completed" || r.UpstreamFormat != "openai_responses" {
			t.Errorf("request %d: %+v", i, r)
		}
	}
	if n := s.metric(t, `caddy_llm_cache_retain_resends_total{driver="letta"}`); n != 1 {
		t.Errorf("%v requests were sent again, want 1", n)
	}
}

// quoted returns the form in which a conversation goes to an agent that lacks it.
func quoted(said []string) string {
	var b strings.Builder
	b.WriteString("<conversation>\n")
	for _, s := range said {
		who, what, _ := strings.Cut(s, ": ")
		fmt.Fprintf(&b, "<%s>\n%s\n</%s>\n", who, what, who)
	}
	return b.String() + "</conversation>\n\n"
}

// between returns the text between two others.
func between(text, from, to string) string {
	_, rest, _ := strings.Cut(text, from)
	rest, _, _ = strings.Cut(rest, to)
	return rest
}
