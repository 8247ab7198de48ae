// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// With InOrder the step depends on earlier responses, and a failing step comes again.
func TestScriptInOrder(t *testing.T) {
	h := &Handler{
		Cache:  newCache(t, "kv"),
		Script: script(t, `[{"text":"zero"},{"text":"one","status":429,"times":2},{"text":"two"}]`),
	}
	h.Script.InOrder = true
	for i, test := range []struct {
		answers int
		more    string
		status  int
		want    string
	}{
		{7, withTools, 200, "zero"},
		{8, withTools, 429, ""},
		{8, "", 200, "This is a simulated model."},
		{8, withTools, 429, ""},
		{8, withTools, 200, "one"},
		{1, withTools, 200, "two"},
		{2, withTools, 200, "This is a simulated model."},
	} {
		w := post(h, "/v1/messages", history(test.answers, test.more))
		if w.Code != test.status {
			t.Fatalf("request %d: status %d, want %d", i, w.Code, test.status)
		}
		if w.Code != http.StatusOK {
			continue
		}
		if got := turn(t, wire.Anthropic, false, w); !strings.HasPrefix(got.Text, test.want) {
			t.Errorf("request %d: got %q, want %q", i, got.Text, test.want)
		}
	}
}

const withTools = `"tools":[{"name":"Bash","input_schema":{"type":"object"}}]`

// history returns a conversation with n answers.
func history(n int, more string) string {
	var b strings.Builder
	b.WriteString(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"go"}`)
	for i := range n {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"tool_use","id":"c%d","name":"Bash","input":{}}]}`, i)
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c%d","content":"ok"}]}`, i)
	}
	b.WriteString(`]`)
	if more != "" {
		b.WriteString("," + more)
	}
	b.WriteString(`}`)
	return b.String()
}

func script(t *testing.T, s string) *Script {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadScript(path)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// The step depends on the answers in the request alone: a repeated or reordered request gets the
// same step.
func TestScriptIsStateless(t *testing.T) {
	h := &Handler{Cache: newCache(t, "kv"), Script: script(t, `[{"text":"zero"},{"text":"one"},{"text":"two"}]`)}
	for _, test := range []struct {
		answers int
		more    string
		want    string
	}{
		{2, withTools, "two"},
		{0, withTools, "zero"},
		{0, withTools, "zero"},
		{1, withTools, "one"},
		{3, withTools, "This is a simulated model."},
		{1, "", "This is a simulated model."},
	} {
		got := turn(t, wire.Anthropic, false, post(h, "/v1/messages", history(test.answers, test.more)))
		if !strings.HasPrefix(got.Text, test.want) {
			t.Errorf("%d answers, %q: got %q", test.answers, test.more, got.Text)
		}
	}
}

func TestScriptFails(t *testing.T) {
	h := &Handler{Cache: newCache(t, "kv"), Script: script(t, `[
		{"status":529,"times":2,"text":"at last"},
		{"status":400,"error":"odd_error","message":"no","times":-1}]`)}
	for i, want := range []int{529, 529, 200, 200} {
		w := post(h, "/v1/messages", history(0, withTools))
		if w.Code != want {
			t.Errorf("attempt %d: status %d, want %d", i, w.Code, want)
		}
		if want == 529 && !strings.Contains(w.Body.String(), `"type":"overloaded_error"`) {
			t.Errorf("attempt %d: %s", i, w.Body)
		}
	}
	for range 3 {
		w := post(h, "/v1/messages", history(1, withTools))
		if w.Code != 400 || !strings.Contains(w.Body.String(), `{"type":"odd_error","message":"no"}`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// A truncated step breaks the connection once, after the given number of events.
func TestScriptTruncates(t *testing.T) {
	server := httptest.NewServer(&Handler{Cache: newCache(t, "kv"), Script: script(t, `[{"truncate":3,"text":"whole"}]`)})
	defer server.Close()
	for i, stream := range []bool{true, false} {
		body := history(0, withTools+fmt.Sprintf(`,"stream":%t`, stream))
		resp, err := http.Post(server.URL+"/v1/messages", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var cut bool
		d := wire.NewDecoder(wire.Anthropic, stream)
		for buf := make([]byte, 512); ; {
			n, err := resp.Body.Read(buf)
			d.Feed(buf[:n])
			if err != nil {
				cut = err.Error() != "EOF"
				break
			}
		}
		_ = resp.Body.Close()
		if first := i == 0; cut != first || d.Turn().Done == first {
			t.Errorf("attempt %d: cut %t, done %t", i, cut, d.Turn().Done)
		}
	}
}

func TestBadScripts(t *testing.T) {
	for _, s := range []string{
		``, `{}`, `[null]`, `[{"txt":"a"}]`, `[] []`, `[{"status":200}]`, `[{"truncate":-1}]`, `[{"clean":true}]`,
		`[{"delay":"soon"}]`, `[{"delay":5}]`, `[{"calls":[{"input":{}}]}]`, `[{"calls":[{"name":"a","input":[]}]}]`,
	} {
		if _, err := ParseScript([]byte(s)); err == nil {
			t.Errorf("%s was taken", s)
		}
	}
	if _, err := ReadScript(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a missing file was taken")
	}
}

func TestSign(t *testing.T) {
	a, b := Sign(strings.Repeat("x", 1000)), Sign(strings.Repeat("y", 1000))
	if a == b || a != Sign(strings.Repeat("x", 1000)) {
		t.Error("a signature depends on the text, and on nothing else")
	}
	if n := len(a); n < 1400 || n > 1800 {
		t.Errorf("%d characters for a text of 1000", n)
	}
}
