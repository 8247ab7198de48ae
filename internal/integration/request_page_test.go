// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestRequestPage sends the request of docs/concepts/request.md, and compares the edits, the headers of the response, and
// the fields of the record with the page.
func TestRequestPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/concepts/request.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	var tests strings.Builder
	for i := range 40 {
		fmt.Fprintf(&tests, "=== RUN   TestRound/%d\n--- PASS: TestRound/%d (0.01s)\n", i, i)
	}
	const failed = "=== RUN   TestTotal\n    total_test.go:12: got 7, want 8\n--- FAIL: TestTotal (0.00s)\nFAIL\nFAIL\tshop/total\t0.412s\n"
	result, err := json.Marshal(tests.String() + failed)
	if err != nil {
		t.Fatal(err)
	}
	body := `{"model":"claude-sonnet-5","max_tokens":1000,"system":[{"type":"text","text":"You fix bugs in Go programs. ` +
		strings.Repeat("Be careful. ", 1000) + `","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"Bash","input_schema":` +
		`{"type":"object"}}],"messages":[{"role":"user","content":"Why does the test fail?"},{"role":"assistant","content":[` +
		`{"type":"tool_use","id":"toolu_01","name":"Bash","input":{"command":"go test -v ./total"}}]},{"role":"user","content":[` +
		`{"type":"tool_result","tool_use_id":"toolu_01","content":` + string(result) + `,"cache_control":{"type":"ephemeral"}}]}]}`

	u := newUpstream(t, answerMessage)
	path := filepath.Join(t.TempDir(), "audit.db")
	p := start(t, "respond 204")
	p.audited(plain(u), sqliteAt(path, ""))
	res := p.post("/v1/messages", body)
	read(t, res)

	sent := gjson.Parse(u.last().body)
	got, err := json.Marshal(sent.Get("messages.2.content.0.content").Str)
	if err != nil {
		t.Fatal(err)
	}
	// The page breaks the string before the failed test.
	if want := strings.ReplaceAll(page, "\\n\n    ", "\\n"); !strings.Contains(want, string(got)) {
		t.Errorf("the provider gets the result %s, which the page does not show", got)
	}
	if tool := sent.Get("tools.1.name").Str; tool == "" || !strings.Contains(page, `{"name": "`+tool+`", …}`) {
		t.Errorf("the added tool is %q, not as on the page", tool)
	}

	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(X-Llm-Cache-[A-Za-z-]+): (.*)$`).FindAllStringSubmatch(page, -1) {
		named[m[1]] = true
		got := res.Header.Get(m[1])
		if got == "" {
			t.Errorf("the response has no %s, as the page says", m[1])
		}
		switch m[1] {
		case "X-Llm-Cache-Policy", "X-Llm-Cache-Transforms", "X-Llm-Cache-Decision":
			// The numbers depend on the texts that the page leaves out.
			if digits := regexp.MustCompile(`\d+`); digits.ReplaceAllString(got, "n") != digits.ReplaceAllString(m[2], "n") {
				t.Errorf("%s is %q, on the page %q", m[1], got, m[2])
			}
		}
	}
	for name := range res.Header {
		if strings.HasPrefix(name, "X-Llm-Cache-") && !named[name] {
			t.Errorf("the response has %s, which the page does not show", name)
		}
	}

	_, example, _ := strings.Cut(page, `{"kind": "turn"`)
	example, _, ok := strings.Cut(`{"kind": "turn"`+example, "\n```")
	if !ok || !gjson.Valid(example) {
		t.Fatal("the page has no record")
	}
	record, err := json.Marshal(turns(t, path, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	gjson.Parse(example).ForEach(func(name, want gjson.Result) bool {
		got := gjson.GetBytes(record, name.Str)
		if !got.Exists() || got.Type != want.Type {
			t.Errorf("%s of the record is %q, on the page %s", name.Str, got.Raw, want.Raw)
		}
		return true
	})
}
