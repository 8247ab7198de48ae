// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

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
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/disk"
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
			_, _ = io.WriteString(w,
				`{"type":"error","error":{"type":"invalid_request_error","message":"thinking: invalid signature"}}`)
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
				sum.Write([]byte(block.Get("type").Str + block.Get("id").Str + block.Get("content").Raw + block.Get("text").Raw +
					block.Get("input").Raw))
				return true
			}
			prefix := [32]byte(sum.Sum(nil))
			signature := block.Get("signature").Str
			if was, known := b.seen[signature]; known {
				ok = ok && was == prefix
			} else {
				b.seen[signature] = prefix
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
	b.WriteString(`{"model":"claude-opus-5-5","max_tokens":1000,"system":"You are an agent.","tools":[{"name":"Read",` +
		`"input_schema":{}}],"messages":[{"role":"user","content":"Fix the build."}`)
	for i := range turns {
		fmt.Fprintf(&b,
			`,{"role":"assistant","content":[{"type":"thinking","thinking":"hm %d","signature":"sig%d"},{"type":"text",`+
				`"text":"I look."},{"type":"tool_use","id":"toolu_%d","name":"Read","input":{"file_path":"/src/file%d.go"}}]}`,
			i, i, i, i)
		result := strings.Repeat(fmt.Sprintf("line of file %d: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\\n", i), 40)
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":"%s"}]}`, i,
			result)
		if i%3 == 2 {
			fmt.Fprintf(&b,
				`,{"role":"assistant","content":[{"type":"text","text":"Done with %d."}]},{"role":"user","content":"Go on with `+
					`%d."}`, i, i)
		}
	}
	b.WriteString(`]}`)
	return b.String()
}

func onDisk(file string) string {
	return "{\nadmin %s\npersist_config off\nauto_https off\ngrace_period 100ms\nlog {\noutput discard\n}\nllm_cache " +
		"{\nstore disk {\npath " + file + "\n}\n}\n}\nhttp://%s {\n%s\n}\n"
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
				p.caddy.Stop(t)
				p.startOnDisk(file, eager(u.upstream))
			}
			if res := p.post("/v1/messages", thoughtful(turn), "X-Session-Id", "one", "X-Api-Key",
				"secret-key"); res.StatusCode != http.StatusOK {
				t.Fatalf("turn %d: status %d", turn, res.StatusCode)
			}
		}
		p.caddy.Stop(t)
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

// Reloads keep the file open. One that fails, as a file in use by another process has it
// fail, leaves the configuration before with its store.
func TestDiskOverReloads(t *testing.T) {
	u := newUpstream(t, answerMessage)
	dir := t.TempDir()
	file, used := filepath.Join(dir, "sessions.db"), filepath.Join(dir, "used.db")
	other, err := disk.Open(disk.Options{Path: used, MaxBytes: 1 << 20, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	p := start(t, "respond 204")
	p.host = "127.0.0.1:80" // the same conversation, wherever it is served
	for turn := range 3 {
		p.startOnDisk(file, plain(u))
		p.post("/v1/messages", conversation(turn, false), "X-Session-Id", "one")
	}
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 3 {
		t.Errorf("sessions are %v", s)
	}
	config := fmt.Sprintf(onDisk(file), p.admin, p.addr, plain(u))
	key := "path " + file + "\nkey " + strings.Repeat("ab", 32)
	for name, bad := range map[string]string{
		"a file in use": strings.Replace(config, "path "+file, "path "+used, 1),
		"another key, no listener": strings.Replace(strings.Replace(config, "path "+file, key, 1), "http://"+p.addr,
			"http://192.0.2.1:1 {\nbind 192.0.2.1\n}\nhttp://"+p.addr, 1),
		"another file, no listener": strings.Replace(strings.Replace(config, "path "+file, "path "+file+".other", 1),
			"http://"+p.addr, "http://192.0.2.1:1 {\nbind 192.0.2.1\n}\nhttp://"+p.addr, 1),
	} {
		err := p.caddy.Load(p.adapt(bad))
		if err == nil || name == "a file in use" && !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.post("/v1/messages", conversation(3, false), "X-Session-Id", "one")
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 4 {
		t.Errorf("sessions are %v", s)
	}
	p.caddy.Stop(t)
	p.startOnDisk(file, plain(u))
	p.post("/v1/messages", conversation(4, false), "X-Session-Id", "one")
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 5 {
		t.Errorf("after a restart sessions are %v", s)
	}
}

// What a process has when the key, the file or the store changes outlives it like what
// comes after: under the new key, in the new file.
func TestRestartAfterChanges(t *testing.T) {
	dir := t.TempDir()
	in := func(name, key string) string {
		return "store disk {\npath " + filepath.Join(dir, name) + "\nkey " + strings.Repeat(key, 64) + "\n}"
	}
	for name, c := range map[string][2]string{
		"another key":     {in("a.db", "a"), in("a.db", "b")},
		"another file":    {in("b.db", "a"), in("c.db", "a")},
		"both":            {in("d.db", "a"), in("e.db", "b")},
		"memory and disk": {"store memory", in("f.db", "a")},
	} {
		t.Run(name, func(t *testing.T) {
			u := newBinder(t)
			p := start(t, "respond 204")
			p.host = "127.0.0.1:80"
			ask := func(turn int) {
				t.Helper()
				if res := p.post("/v1/messages", thoughtful(turn), "X-Session-Id", "one", "X-Api-Key",
					"secret-key"); res.StatusCode != http.StatusOK {
					t.Fatalf("turn %d: status %d", turn, res.StatusCode)
				}
			}
			load := func(options string) {
				t.Helper()
				p.move()
				p.load(p.optioned(options, eager(u.upstream)))
			}
			load(c[0])
			for turn := range 6 {
				ask(turn)
			}
			load(c[1])
			if name == "memory and disk" { // what was folded in memory only is described with the next request
				ask(6)
			}
			p.caddy.Stop(t)
			load(c[1])
			for turn := 7; turn < 10; turn++ {
				ask(turn)
			}
			if u.refused > 0 {
				t.Errorf("%d requests were refused", u.refused)
			}
			if s := p.sessions(); len(s) != 1 || s[0].requests() < 9 {
				t.Errorf("sessions are %v", s)
			}
		})
	}
}

// A file that comes into use while nothing is in memory is read as at a start.
func TestReloadToAFile(t *testing.T) {
	u := newUpstream(t, answerMessage)
	file := filepath.Join(t.TempDir(), "sessions.db")
	p := start(t, "respond 204")
	p.host = "127.0.0.1:80"
	ask := func(turn int) {
		p.post("/v1/messages", conversation(turn, false), "X-Session-Id", "one")
	}
	p.startOnDisk(file, plain(u))
	ask(1)
	p.caddy.Stop(t)
	p.reload(plain(u))
	for turn := 2; turn < 4; turn++ {
		p.startOnDisk(file, plain(u))
		ask(turn)
	}
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 3 {
		t.Errorf("sessions are %v", s)
	}
}

// A store that a stream still uses, and no configuration any more, is there for the next one.
func TestReloadDuringAStream(t *testing.T) {
	seen := make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n > 1 {
			answerMessage(w, r, n)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events[0])
		w.(http.Flusher).Flush()
		<-seen
		_, _ = io.WriteString(w, strings.Join(events[1:], ""))
	})
	file := filepath.Join(t.TempDir(), "sessions.db")
	p := start(t, "respond 204")
	p.host = "127.0.0.1:80"
	p.startOnDisk(file, plain(u))
	stream := p.post("/v1/messages", conversation(1, true), "X-Session-Id", "one")
	p.reload("respond 204")
	p.startOnDisk(file, plain(u))
	p.startOnDisk(file+".other", plain(u))
	close(seen)
	if got := read(t, stream); got != strings.Join(events, "") {
		t.Errorf("the stream is %q", got)
	}
	p.post("/v1/messages", conversation(2, false), "X-Session-Id", "one")
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 2 {
		t.Errorf("sessions are %v", s)
	}
}

// A file that cannot be opened is tried again with each reload. What is in memory comes to
// lie there then.
func TestReloadOpensTheFile(t *testing.T) {
	u := newUpstream(t, answerMessage)
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "sessions.db")
	p := start(t, "respond 204")
	p.host = "127.0.0.1:80"
	for turn := range 2 {
		p.startOnDisk(file, plain(u))
		p.post("/v1/messages", conversation(turn, false), "X-Session-Id", "one")
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	p.startOnDisk(file, plain(u))
	p.caddy.Stop(t)
	p.startOnDisk(file, plain(u))
	p.post("/v1/messages", conversation(2, false), "X-Session-Id", "one")
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 3 {
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
				if res := p.post("/v1/messages", conversation(turn, false), "X-Session-Id",
					"one"); res.StatusCode != http.StatusOK {
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
