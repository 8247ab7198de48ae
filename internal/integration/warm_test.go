// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// warmSite is a box whose bases are kept warm.
func warmSite(u *upstream, options string) string {
	return fmt.Sprintf("llm_cache {\n upstream mlx_lm\n heartbeat off\n queue\n%s\n}\nreverse_proxy %s", options,
		u.Listener.Addr())
}

// came waits until a box got so many requests.
func (u *upstream) came(t *testing.T, n int) []received {
	t.Helper()
	for range 6000 {
		if got := u.requests(); len(got) >= n {
			return got
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d requests came, want %d", len(u.requests()), n)
	return nil
}

// isWarmUp reports whether a request only has the box read how another one began.
func isWarmUp(r, of received) bool {
	return gjson.Get(r.body, "max_tokens").Int() == 1 && gjson.Get(r.body, "tools").Raw == gjson.Get(of.body,
		"tools").Raw &&
		gjson.Get(r.body, "messages.0").Raw == gjson.Get(of.body, "messages.0").Raw &&
		gjson.Get(r.body, "messages.1").Raw == `{"role":"user","content":"."}` && gjson.Get(r.body, "messages.#").Int() == 2
}

// A box that broke off in the middle is sent the bases that it had, with the
// credential that they came with; and so it is after a reload.
func TestWarmAfterTrouble(t *testing.T) {
	var trouble atomic.Bool
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if trouble.CompareAndSwap(true, false) {
			panic(http.ErrAbortHandler)
		}
		answerChat(w, r, n)
	})
	p := start(t, warmSite(u, "warm"))
	read := p.metric(`caddy_llm_cache_warmups_total{outcome="read"}`)
	if res := p.post("/v1/messages", withTools(1), "X-Api-Key", "sk-one"); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	trouble.Store(true)
	other := strings.Replace(withTools(1), "You are an agent.", "You are another agent.", 1)
	if res := p.post("/v1/messages", other, "X-Api-Key", "sk-two"); res.StatusCode == http.StatusOK {
		t.Fatal("the box was in trouble and nobody noticed")
	}
	got := u.came(t, 3)
	if !isWarmUp(got[2], got[0]) {
		t.Errorf("after trouble came %s", got[2].body)
	}
	if key := got[2].header.Get("Authorization"); key != "Bearer sk-one" {
		t.Errorf("the warm-up came with the credential %q", key)
	}
	if got[2].path != "/v1/chat/completions" {
		t.Errorf("the warm-up came to %s", got[2].path)
	}
	p.until(`caddy_llm_cache_warmups_total{outcome="read"}`, read+1)

	// Used a moment ago, it counts as warm.
	p.reload(warmSite(u, "warm {\n prefixes 2\n}"))
	if res := p.post("/v1/messages", withTools(2), "X-Api-Key", "sk-one"); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	if got := u.requests(); len(got) != 4 {
		t.Errorf("%d requests came, want 4: a base that is warm was sent again", len(got))
	}
}

// With a folder, bases outlive the process, without credentials.
func TestWarmStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bases")
	u := newUpstream(t, answerChat)
	site := warmSite(u, "warm {\n store "+dir+"\n}")
	p := start(t, site)
	if res := p.post("/v1/messages", withTools(1), "X-Api-Key", "sk-secret"); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	var files []string
	for range 6000 {
		if files, _ = filepath.Glob(filepath.Join(dir, "*.base.json")); len(files) == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(files) != 1 {
		t.Fatalf("files %v, want one", files)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "sk-secret") {
		t.Errorf("a credential lies on disk: %s", text)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}
	// As if it had been used long ago.
	old := strings.Replace(string(text), `"used":"20`, `"used":"19`, 1)
	if err := os.WriteFile(files[0], []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	p.caddy.Stop(t)
	start(t, site)
	got := u.came(t, 2)
	if !isWarmUp(got[1], got[0]) {
		t.Errorf("after the start came %s", got[1].body)
	}
	if key := got[1].header.Get("Authorization"); key != "" {
		t.Errorf("the warm-up came with the credential %q", key)
	}
}

// The key that a Gemini client has in its query lies in memory only, and takes its
// way from there.
func TestWarmStoreHoldsNoKeyOfAQuery(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bases")
	var trouble atomic.Bool
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if trouble.CompareAndSwap(true, false) {
			panic(http.ErrAbortHandler)
		}
		answerChat(w, r, n)
	})
	site := warmSite(u, "warm {\n store "+dir+"\n}")
	p := start(t, site)
	const path = "/v1beta/models/gemini-3.1-pro:generateContent?alt=json&key=sk-secret&trace=sk-also"
	const body = `{"systemInstruction":{"parts":[{"text":"You are an agent."}]},` +
		`"tools":[{"functionDeclarations":[{"name":"Read"}]}],"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`
	if res := p.post(path, body); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	var text string
	for range 6000 {
		files, _ := filepath.Glob(filepath.Join(dir, "*.base.json"))
		if len(files) == 1 {
			if b, err := os.ReadFile(files[0]); err == nil {
				text = string(b)
				break
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	if strings.Contains(text, "sk-") || !strings.Contains(text, "generateContent?alt=json") {
		t.Errorf("on disk is\n%s", text)
	}
	trouble.Store(true)
	p.post(path, body)
	got := u.came(t, 3)
	if key := got[2].header.Get("Authorization"); !isWarmUp(got[2], got[0]) || key != "Bearer sk-secret" {
		t.Errorf("with the key %q came %s", key, got[2].body)
	}
}

// A history is folded behind an answer once the box has read it; the next request
// goes out with it. One that comes before goes out as it is.
func TestIdleFolding(t *testing.T) {
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprintf("early=%t", early), func(t *testing.T) {
			reads := make(chan struct{}, 100)
			u := newUpstream(t, nil)
			u.Config.Handler = readers(t, u, early, reads)
			p := start(t, warmSite(u, "idle_folding {\n after 1ms\n}\nplanner {\n risk 100\n}")) // short outputs are folded
			outcome := func(name string) string { return `caddy_llm_cache_idle_folds_total{outcome="` + name + `"}` }
			interrupted, finished := outcome("interrupted"), outcome("read")
			vain := func() float64 { return p.metric(interrupted) + p.metric(outcome("late")) + p.metric(outcome("failed")) }
			given, had, lost := p.metric(interrupted), p.metric(finished), vain()
			n := 0
			for folded := false; !folded; n++ {
				if n == 40 {
					t.Fatal("nothing was folded")
				}
				if res := p.post("/v1/messages", commands(n), "X-Api-Key", "sk-one"); res.StatusCode != http.StatusOK {
					t.Fatal(res.Status)
				}
				for range 20 { // time for a fold to begin
					if time.Sleep(time.Millisecond); len(reads) > 0 {
						break
					}
				}
				folded = len(reads) > 0
				if folded && !early { // on a slow machine the next request may have been faster
					p.await(finished, func(now float64) bool { return now > had || vain() >= lost+float64(len(reads)) })
					folded = p.metric(finished) > had
				}
			}
			before := len(u.requests()) // more may be folded behind the next one
			if res := p.post("/v1/messages", commands(n), "X-Api-Key", "sk-one"); res.StatusCode != http.StatusOK {
				t.Fatal(res.Status)
			}
			if early {
				p.await(interrupted, func(now float64) bool { return now > given })
			}
			// What the box has read is what the next request begins with.
			var read, next received
			for i, r := range u.requests() {
				switch fold := gjson.Get(r.body, "max_tokens").Int() == 1; {
				case fold && i < before && (read.body == "" || !early):
					read, next = r, received{}
				case !fold && read.body != "" && next.body == "":
					next = r
				}
			}
			folded, last := gjson.Get(read.body, "messages").Array(), gjson.Get(next.body, "messages").Array()
			same := 0
			for same < len(folded) && same < len(last) && folded[same].Raw == last[same].Raw {
				same++
			}
			if begins := same == len(folded); begins == early {
				t.Errorf("of the %d messages that were to be read in advance %d stand in front of the next request's %d",
					len(folded), same, len(last))
			}
		})
	}
}

// commands is a conversation of an agent that runs so many commands, each of which
// prints other lines.
func commands(n int) string {
	lines := 0
	body := regexp.MustCompile("x{20,}").ReplaceAllStringFunc(withTools(n), func(string) string {
		lines++
		return fmt.Sprintf("step %d took %d ms", lines, lines*7919%1000)
	})
	return strings.NewReplacer(`"name":"Read"`, `"name":"Bash"`, `"file_path":"/src/`, `"command":"make `).Replace(body)
}

// readers answers, and tells of requests that only have it read. Those it holds
// until they are given up, or answers.
func readers(t *testing.T, u *upstream, early bool, reads chan<- struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return // given up before it was all here
		}
		body := string(text)
		u.mu.Lock()
		u.got = append(u.got, received{r.Method, r.URL.Path, r.Header.Clone(), r.ContentLength, body})
		u.mu.Unlock()
		if gjson.Get(body, "max_tokens").Int() == 1 {
			reads <- struct{}{}
			if early {
				<-r.Context().Done()
				return
			}
		}
		answerChat(w, r, 0)
	})
}

// Several boxes behind one site are sent each base, one after the other.
func TestWarmBoxes(t *testing.T) {
	var trouble atomic.Bool
	boxes := make([]*upstream, 3)
	var addrs []string
	for i := range boxes {
		boxes[i] = newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
			if trouble.CompareAndSwap(true, false) {
				panic(http.ErrAbortHandler)
			}
			answerChat(w, r, n)
		})
		addrs = append(addrs, boxes[i].Listener.Addr().String())
	}
	p := start(t,
		fmt.Sprintf("llm_cache {\n upstream mlx_lm\n heartbeat off\n queue\n warm\n}\nreverse_proxy %s {\n lb_policy "+
			"llm_session\n}", strings.Join(addrs, " ")))
	read := p.metric(`caddy_llm_cache_warmups_total{outcome="read"}`)
	if res := p.post("/v1/messages", withTools(1), "X-Api-Key", "sk-one"); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	var first received
	for _, b := range boxes {
		if got := b.requests(); len(got) > 0 {
			first = got[0]
		}
	}
	trouble.Store(true)
	if res := p.post("/v1/messages", withTools(1), "X-Api-Key", "sk-one"); res.StatusCode == http.StatusOK {
		t.Fatal("the box was in trouble and nobody noticed")
	}
	p.until(`caddy_llm_cache_warmups_total{outcome="read"}`, read+float64(len(boxes)))
	for i, b := range boxes {
		n := 0
		for _, r := range b.requests() {
			if isWarmUp(r, first) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("box %d was sent the base %d times, want once", i, n)
		}
	}
}
