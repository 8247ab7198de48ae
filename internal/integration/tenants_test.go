// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// small has a site hold little.
func (p *proxy) small(site string) []byte {
	return []byte(strings.Replace(string(p.config(site)), `"apps":{`, `"apps":{"llm_cache":{"memory":4194304},`, 1))
}

// TestStrangersPushNobodyOut: whoever is refused leaves nothing behind, and one
// tenant with however many conversations does not cost another its own.
func TestStrangersPushNobodyOut(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		switch key := r.Header.Get("X-Api-Key"); {
		case strings.HasPrefix(key, "stranger"):
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized - n%2*(http.StatusUnauthorized-http.StatusForbidden))
			_, _ = io.WriteString(w, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`)
		default:
			answerMessage(w, r, n)
		}
	})
	p := start(t, plain(u))
	p.load(p.small(plain(u)))
	ours := p.post("/v1/messages", conversation(1, false), "X-Api-Key", "ours", "X-Session-Id",
		"s").Header.Get("X-Llm-Cache-Session")
	known := func(when string, requests int) {
		t.Helper()
		var r report
		if code := p.adminDo(http.MethodGet, "/llm_cache/sessions/"+ours, &r); code != http.StatusOK ||
			r.requests() != requests {
			t.Fatalf("%s: status %d, %d requests, want %d", when, code, r.requests(), requests)
		}
	}
	p.client.Transport.(asksAll).RoundTripper.(*http.Transport).DisableKeepAlives = false
	bytes := p.metric("caddy_llm_cache_store_bytes")
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 400 {
				res := p.post("/v1/messages", conversation(0, false), "X-Api-Key", fmt.Sprint("stranger ", g, i), "X-Session-Id",
					"s")
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
	group.Wait()
	known("after strangers", 1)
	if got := p.metric("caddy_llm_cache_store_bytes"); got != bytes {
		t.Errorf("%v bytes are held after strangers, %v before", got, bytes)
	}
	if s := p.sessions(); len(s) != 1 {
		t.Errorf("%d sessions are held", len(s))
	}
	for i := range 600 {
		res := p.post("/v1/messages", conversation(0, false), "X-Api-Key", "loud", "X-Session-Id", fmt.Sprint(i))
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	if n := p.metric("caddy_llm_cache_sessions"); n >= 600 {
		t.Fatalf("%v sessions are held: this shows nothing", n)
	}
	known("after another tenant's conversations", 1)
	p.post("/v1/messages", conversation(2, false), "X-Api-Key", "ours", "X-Session-Id", "s")
	known("in the next request", 2)
}

// TestRenewedToken: who is known by something else than a token goes on in the conversation
// after it was renewed, and no one else does.
func TestRenewedToken(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "llm_cache {\ntenant {http.request.header.X-Team-Key} {\nignore_credentials\n}\n}\nreverse_proxy "+
		u.Listener.Addr().String())
	session := func(token, key string, turns int) string {
		res := p.post("/v1/messages", conversation(turns, false), "Authorization", "Bearer "+token, "X-Team-Key", key,
			"X-Session-Id", "s")
		read(t, res)
		return res.Header.Get("X-Llm-Cache-Session")
	}
	annas := session("a1", "anna's secret", 1)
	if again := session("a2", "anna's secret", 2); annas == "" || again != annas {
		t.Errorf("with another token the session is %s, it was %s", again, annas)
	}
	if bens := session("a2", "ben's secret", 2); bens == annas {
		t.Error("another person has come into the session by a token")
	}
	if none := session("a1", "", 2); none == annas || none == session("a2", "", 2) {
		t.Error("who is known by nothing but a token is taken for another")
	}
}

// TestSessionPages: the admin API lists sessions in pages, each of them once.
func TestSessionPages(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	p.client.Transport.(asksAll).RoundTripper.(*http.Transport).DisableKeepAlives = false
	const n = 130
	for i := range n {
		read(t, p.post("/v1/messages", conversation(0, false), "X-Session-Id", fmt.Sprint(i)))
	}
	type page struct {
		Sessions []report `json:"sessions"`
		Total    int      `json:"total"`
		Next     string   `json:"next"`
	}
	get := func(query string) (g page) {
		t.Helper()
		if code := p.adminDo(http.MethodGet, "/llm_cache/sessions"+query, &g); code != http.StatusOK || g.Total < n {
			t.Fatalf("%s: status %d, %d in all", query, code, g.Total)
		}
		return g
	}
	if g := get(""); len(g.Sessions) != 100 || g.Next == "" {
		t.Errorf("a page holds %d sessions, and next is %q", len(g.Sessions), g.Next)
	}
	if g := get("?limit=1000"); len(g.Sessions) != n || g.Next != "" {
		t.Errorf("all on one page: %d sessions, and next is %q", len(g.Sessions), g.Next)
	}
	seen := map[string]bool{}
	for query, pages := "?limit=7", 0; ; pages++ {
		g := get(query)
		for _, s := range g.Sessions {
			if seen[s.ID] || s.requests() == 0 {
				t.Fatalf("session %s is listed again, or never was", s.ID)
			}
			seen[s.ID] = true
		}
		if g.Next == "" {
			break
		}
		query = "?limit=7&after=" + g.Next
		read(t, p.post("/v1/messages", conversation(1, false), "X-Session-Id", fmt.Sprint(pages)))        // used in between
		read(t, p.post("/v1/messages", conversation(0, false), "X-Session-Id", fmt.Sprint("new", pages))) // and made
	}
	if len(seen) != n {
		t.Errorf("%d of %d sessions are listed", len(seen), n)
	}
	for _, query := range []string{"?limit=0", "?limit=1001", "?limit=x", "?after=x", "?after=-1"} {
		if code := p.adminDo(http.MethodGet, "/llm_cache/sessions"+query, nil); code != http.StatusBadRequest {
			t.Errorf("%s: status %d", query, code)
		}
	}
	var text string
	p.adminDo(http.MethodGet, "/llm_cache/sessions?after=1", &text)
	if want := `{"sessions":[],`; !strings.HasPrefix(text, want) || !json.Valid([]byte(text)) {
		t.Errorf("an empty page is %s", text)
	}
}

// TestDeletedTexts: with a session its folded texts are gone, from memory and from
// disk, whether they are written by then or not.
func TestDeletedTexts(t *testing.T) {
	dir := t.TempDir()
	originals := `{"folder":` + js(filepath.Join(dir, "texts")) + `,"key_file":` + js(filepath.Join(dir, "a.key")) + `}`
	g := tongues[0]
	known, asks := "", false
	p, u := g.fold(t, true, func(name string, _ int) []piece {
		if name != "" {
			known = name
		}
		if asks {
			asks = false
			return []piece{expands("call_e", known)}
		}
		return []piece{text("Ok.")}
	})
	site := pruning(u)
	ask := func(h []remark) (session, result string) {
		res := p.post(g.path(true), g.request(h, true), "Authorization", "one")
		read(t, res)
		outline := g.outline(t, u.last().body)
		return res.Header.Get("X-Llm-Cache-Session"), outline[len(outline)-1]
	}
	p.keeping(site, originals)
	whole := history(6)
	dropped := append(whole[:1:1], whole[3:]...)
	for _, c := range []struct{ remove, restart bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		ask(history(4))
		id, _ := ask(history(5))
		if known == "" {
			t.Fatal("nothing was folded")
		}
		if c.remove {
			if code := p.adminDo(http.MethodDelete, "/llm_cache/sessions/"+id, nil); code != http.StatusNoContent {
				t.Fatalf("status %d", code)
			}
		}
		if c.restart {
			p.keeping(site, originals)
		}
		asks = true
		if _, got := ask(dropped); strings.Contains(got, "Unknown block") != c.remove {
			t.Errorf("%+v: got %.200s", c, got)
		}
		if code := p.adminDo(http.MethodDelete, "/llm_cache/sessions/"+id, nil); code != http.StatusNoContent {
			t.Fatalf("status %d", code)
		}
	}
}

// TestOneCredentialForAll: where a handler in front gives everybody the same
// credential, a warning says so, and the option tenant tells people apart.
func TestOneCredentialForAll(t *testing.T) {
	const auth = "basic_auth {\n bob $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\n"
	const one = "request_header Authorization \"Bearer {env.HOME}\"\n"
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	to := "\nreverse_proxy " + u.Listener.Addr().String() + "\n"
	for _, c := range []struct {
		name, site   string
		warns, apart bool
	}{
		{"one for all", one + "llm_cache" + to, true, false},
		{"one for all in a route", "route {\n" + one + "route {\nllm_cache" + to + "}\n}", true, false},
		{"one for all in a named route", one + "invoke model", true, false},
		{"said whose", one + "llm_cache {\ntenant {http.request.header.X-User}\n}" + to, false, true},
		{
			"of the request", "request_header Authorization \"Bearer {http.request.header.X-User}\"\nllm_cache" + to,
			false, true,
		},
		{"for others", "handle /other/* {\n" + one + "}\nhandle {\nllm_cache" + to + "}", false, false},
		{
			"behind", "llm_cache\nreverse_proxy " + u.Listener.Addr().String() + " {\nheader_up Authorization \"Bearer x\"\n}",
			false, false,
		},
		{"people are known", auth + one + "llm_cache" + to, false, false},
	} {
		log := filepath.Join(t.TempDir(), "log")
		p.move()
		site := string(p.config(c.site, "&(model) {\nroute {\nllm_cache"+to+"}\n}"))
		site = strings.Replace(site, `{"output":"discard"}`, `{"output":"file","filename":`+js(log)+`}`, 1)
		p.load([]byte(site))
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		n := strings.Count(string(text), "all requests are of one tenant")
		if want := map[bool]int{true: 1}[c.warns]; n != want {
			t.Errorf("%s: %d warnings, want %d", c.name, n, want)
		}
		if strings.Contains(c.site, auth) {
			continue
		}
		ask := func(user string) string {
			t.Helper()
			res := p.post("/v1/messages", conversation(1, false), "X-User", user, "X-Session-Id", "s")
			if res.Header.Get("X-Llm-Cache-Session") == "" {
				t.Errorf("%s: status %d: %s", c.name, res.StatusCode, read(t, res))
			}
			return res.Header.Get("X-Llm-Cache-Session")
		}
		a, b := ask("ann"), ask("ben")
		if a == "" || (a != b) != c.apart || ask("ann") != a {
			t.Errorf("%s: ann has session %q, ben %q", c.name, a, b)
		}
	}
}
