// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A conversation on a model that binds thinking to its context, at a Caddy that is killed
// repeatedly. With sessions on disk the model refuses nothing. With sessions in memory it does, as
// a control.
func TestBoundThinkingOverKills(t *testing.T) {
	needCaddy(t)
	for store, keeps := range map[string]bool{"disk": true, "memory": false} {
		t.Run(store, func(t *testing.T) {
			refused, folded := thinkOverKills(t, store)
			if folded == 0 {
				t.Error("nothing was folded")
			}
			if keeps != (refused == 0) {
				t.Errorf("%d refusals", refused)
			}
			t.Logf("%d requests with folds, %d refused", folded, refused)
		})
	}
}

// thinkOverKills runs a conversation of tasks of three calls each. It returns the numbers of
// refused requests and of requests with folds.
func thinkOverKills(t *testing.T, store string) (refused, folded int64) {
	const turns = 16
	var script []step
	for i := range turns {
		s := calls(toolCall{"Read", map[string]string{"file_path": fmt.Sprintf("/src/file%d.go", i)}})
		if i%4 == 3 {
			s = step{Text: fmt.Sprintf("Done with %d.", i)}
		}
		s.Thinking = fmt.Sprintf("What %d is about I see now.", i)
		script = append(script, s)
	}
	text, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	model := startNode(t, "memory", "llm_cache_simulator {\n\t\tscript "+file+"\n\t}")
	var refusals, folds atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: model.addr})
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.StatusCode == http.StatusBadRequest {
			refusals.Add(1)
		}
		return nil
	}
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return // the node was killed
		}
		if bytes.Contains(b, []byte("[[llm_cache:folded ")) || bytes.Contains(b, []byte("[Compacted: ")) {
			folds.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(between.Close)
	n := startNode(t, store,
		"llm_cache {\n\t\tpolicy eager\n\t\tzones {\n\t\t\tfrozen 0\n\t\t\thot 1\n\t\t\tmin_messages "+
			"0\n\t\t}\n\t}\n\treverse_proxy "+between.Listener.Addr().String())
	messages := `{"role":"user","content":"Fix the build."}`
	for turn := range turns {
		if turn%2 == 1 {
			n.dies(t)
		}
		answer, ok := think(t, n, messages)
		if !ok {
			break
		}
		messages += `,{"role":"assistant","content":` + string(answer.Content) + `}`
		result := `"Go on."`
		if answer.StopReason == "tool_use" {
			var blocks []struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(answer.Content, &blocks); err != nil {
				t.Fatal(err)
			}
			result = fmt.Sprintf(`[{"type":"tool_result","tool_use_id":%q,"content":%q}]`, blocks[len(blocks)-1].ID,
				strings.Repeat(fmt.Sprintf("line of file %d\n", turn), 150))
		}
		messages += `,{"role":"user","content":` + result + `}`
	}
	return refusals.Load(), folds.Load()
}

// answer is the model's answer.
type answer struct {
	Content    json.RawMessage `json:"content"`
	StopReason string          `json:"stop_reason"`
}

// think returns the answer to messages, and false if the model refuses them.
func think(t *testing.T, n *fleetNode, messages string) (a answer, ok bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+n.addr+"/v1/messages",
		strings.NewReader(
			`{"model":"claude-opus-5-5","max_tokens":1000,"thinking":{"type":"adaptive"},"system":"You are an agent.",`+
				`"tools":[{"name":"Read","input_schema":{"type":"object"}}],"messages":[`+messages+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("X-Api-Key", "sk-test")
	req.Header.Set("X-Session-Id", "one")
	resp, err := fresh.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusBadRequest &&
		bytes.Contains(b, []byte("Invalid `signature` in `thinking` block")) {
		return a, false
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v: %.300s", resp.Status, err, b)
	}
	if err := json.Unmarshal(b, &a); err != nil {
		t.Fatal(err)
	}
	return a, true
}
