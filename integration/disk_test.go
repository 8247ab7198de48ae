// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package integration_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2"
)

// binder is an upstream that binds thinking: it refuses a thought before which anything
// stands that the model has not seen, and counts that.
type binder struct {
	*upstream
	seen    map[string][32]byte // by signature: what stood in front
	refused int
}

func newBinder(t *testing.T) *binder {
	b := &binder{seen: map[string][32]byte{}}
	b.upstream = newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if !b.bound(b.last().body) {
			b.refused++
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"type":"error","error":{"type":"invalid_request_error","message":"thinking: invalid signature"}}`)
			return
		}
		answerMessage(w, r, n)
	})
	return b
}

// bound checks the thoughts in a body, and notes what the next one will be bound to.
func (b *binder) bound(body string) bool {
	ok := true
	sum := sha256.New()
	gjson.Get(body, "messages").ForEach(func(_, m gjson.Result) bool {
		blocks := m.Get("content")
		if blocks.Type == gjson.String {
			sum.Write([]byte("text" + blocks.Raw)) // as it is once it has a marker
			return true
		}
		blocks.ForEach(func(_, block gjson.Result) bool {
			if block.Get("type").Str != "thinking" {
				sum.Write([]byte(block.Get("type").Str + block.Get("id").Str + block.Get("content").Raw + block.Get("text").Raw + block.Get("input").Raw))
				return true
			}
			front := [32]byte(sum.Sum(nil))
			signature := block.Get("signature").Str
			if was, known := b.seen[signature]; known {
				ok = ok && was == front
			} else {
				b.seen[signature] = front
			}
			return true
		})
		return true
	})
	return ok
}

// thoughtful is a request of a conversation in tasks of three calls each, with thoughts.
func thoughtful(turns int) string {
	var b strings.Builder
	b.WriteString(`{"model":"claude-opus-5-5","max_tokens":1000,"system":"You are an agent.","tools":[{"name":"Read","input_schema":{}}],"messages":[{"role":"user","content":"Fix the build."}`)
	for i := range turns {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"thinking","thinking":"hm %d","signature":"sig%d"},{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_%d","name":"Read","input":{"file_path":"/src/file%d.go"}}]}`, i, i, i, i)
		result := strings.Repeat(fmt.Sprintf("line of file %d: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\\n", i), 40)
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":"%s"}]}`, i, result)
		if i%3 == 2 {
			fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"text","text":"Done with %d."}]},{"role":"user","content":"Go on with %d."}`, i, i)
		}
	}
	b.WriteString(`]}`)
	return b.String()
}

func onDisk(file string) string {
	return "{\nadmin %s\npersist_config off\nauto_https off\ngrace_period 100ms\nlog {\noutput discard\n}\nllm_cache {\nstore disk {\npath " + file + "\n}\n}\n}\nhttp://%s {\n%s\n}\n"
}

// startOnDisk runs Caddy with a site whose sessions are in a file.
func (p *proxy) startOnDisk(file, site string) {
	p.t.Helper()
	p.move()
	p.load(p.adapt(fmt.Sprintf(onDisk(file), p.admin, p.addr, site)))
}

// A conversation on a model that binds thinking goes on over restarts without a
// refusal, and in the very bytes of a process that never stopped.
func TestRestartWithDisk(t *testing.T) {
	run := func(restarts bool) (*binder, string) {
		u := newBinder(t)
		file := filepath.Join(t.TempDir(), "sessions.db")
		p := start(t, "respond 204")
		p.startOnDisk(file, eager(u.upstream))
		p.host = "127.0.0.1:80" // the same conversation, wherever it is served
		for turn := range 14 {
			if restarts && turn%3 == 1 {
				if err := caddy.Stop(); err != nil {
					t.Fatal(err)
				}
				p.startOnDisk(file, eager(u.upstream))
			}
			if res := p.post("/v1/messages", thoughtful(turn), "X-Session-Id", "one", "X-Api-Key", "secret-key"); res.StatusCode != http.StatusOK {
				t.Fatalf("turn %d: status %d", turn, res.StatusCode)
			}
		}
		if err := caddy.Stop(); err != nil {
			t.Fatal(err)
		}
		return u, file
	}
	never, _ := run(false)
	again, file := run(true)
	if never.refused != 0 || again.refused != 0 {
		t.Errorf("%d refusals without a restart, %d with", never.refused, again.refused)
	}
	want, got := never.requests(), again.requests()
	if len(want) != len(got) {
		t.Fatalf("%d requests, not %d", len(got), len(want))
	}
	folds := 0
	for i := range want {
		if want[i].body != got[i].body {
			t.Fatalf("request %d:\n%s\nnot\n%s", i, got[i].body, want[i].body)
		}
		if strings.Contains(got[i].body, "[Compacted: ") {
			folds++
		}
	}
	if folds == 0 {
		t.Error("nothing was folded")
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"line of file", "secret-key", "/src/file", "You are", "sig1"} {
		if bytes.Contains(kept, []byte(secret)) {
			t.Errorf("%q is in the file", secret)
		}
	}
}

// Reloads keep the file open, and a second process is told why it cannot have it.
func TestDiskOverReloads(t *testing.T) {
	u := newUpstream(t, answerMessage)
	file := filepath.Join(t.TempDir(), "sessions.db")
	p := start(t, "respond 204")
	p.host = "127.0.0.1:80" // the same conversation, wherever it is served
	for turn := range 3 {
		p.startOnDisk(file, plain(u))
		p.post("/v1/messages", conversation(turn, false), "X-Session-Id", "one")
	}
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 3 {
		t.Errorf("sessions are %v", s)
	}
	other := strings.Replace(fmt.Sprintf(onDisk(file), p.admin, p.addr, plain(u)), "path "+file, "path "+file+"\nkey "+strings.Repeat("ab", 32), 1)
	if err := caddy.Load(p.adapt(other), true); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("the same file under another key: %v", err)
	}
	p.post("/v1/messages", conversation(3, false), "X-Session-Id", "one")
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 4 {
		t.Errorf("sessions are %v", s)
	}
}

// A folder in which nothing can be written, a full disk and a damaged file cost no
// request.
func TestDiskThatFails(t *testing.T) {
	for name, prepare := range map[string]func(file string) error{
		"no folder": func(file string) error { return os.WriteFile(filepath.Dir(file), nil, 0o600) },
		"a folder in its place": func(file string) error {
			return os.MkdirAll(filepath.Join(file, "x"), 0o700)
		},
		"damaged": func(file string) error {
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				return err
			}
			return os.WriteFile(file, bytes.Repeat([]byte("rubbish "), 1000), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, answerMessage)
			file := filepath.Join(t.TempDir(), "folder", "sessions.db")
			if err := prepare(file); err != nil {
				t.Fatal(err)
			}
			p := start(t, "respond 204")
			what := "open"
			if name == "damaged" {
				what = "damaged"
			}
			counter := `caddy_llm_cache_store_errors_total{operation="` + what + `"}`
			p.startOnDisk(file, eager(u))
			p.host = "127.0.0.1:80" // the same conversation, wherever it is served
			for turn := range 3 {
				if res := p.post("/v1/messages", conversation(turn, false), "X-Session-Id", "one"); res.StatusCode != http.StatusOK {
					t.Errorf("status %d", res.StatusCode)
				}
			}
			if p.metric(counter) < 1 {
				t.Errorf("%s is %v", counter, p.metric(counter))
			}
			if s := p.sessions(); len(s) != 1 || s[0].requests() != 3 {
				t.Errorf("sessions are %v", s)
			}
		})
	}
}
