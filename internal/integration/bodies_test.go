// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestNoRoomForBodies has one request take the memory for bodies. Those behind it wait, and
// then pass unread where the upstream takes them as they are; small ones have room.
func TestNoRoomForBodies(t *testing.T) {
	if testing.Short() {
		t.Skip("waits as long as requests do")
	}
	arrived, leave := make(chan struct{}, 1), make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if r.Header.Get("X-Holds") != "" {
			arrived <- struct{}{}
			<-leave
		}
		answerMessage(w, r, n)
	})
	h := &hostility{proxy: start(t, strings.ReplaceAll(hostileSites, "%[1]s", u.Listener.Addr().String()))}
	h.move()
	h.load(bytes.Replace(h.config(strings.ReplaceAll(hostileSites, "%[1]s", u.Listener.Addr().String())),
		[]byte(`"apps":{`), []byte(`"apps":{"llm_cache":{"memory":4194304},`), 1))

	large := dialects[0].say("CONTENT", `"`+strings.Repeat("many words ", 200_000)+`"`)
	var holder, all sync.WaitGroup
	holder.Go(func() { h.post("/native/v1/messages", large, "X-Holds", "1") })
	<-arrived
	if reserved := h.metric(`caddy_llm_cache_memory_bytes{part="bodies"}`); reserved < float64(len(large)) {
		t.Errorf("%v bytes are held for one of %d", reserved, len(large))
	}

	if res := h.post("/native/v1/messages", conversation(3, false)); res.Header.Get("X-Llm-Cache-Session") == "" {
		t.Error("a small request found no room")
	}
	// What waits, waits at the same time.
	for name, send := range map[string]func() *http.Request{
		"plain": func() *http.Request { return h.request(t, "/native/v1/messages", strings.NewReader(large)) },
		"chunked": func() *http.Request {
			return h.request(t, "/native/v1/messages", io.MultiReader(strings.NewReader(large)))
		},
		"gzip": func() *http.Request {
			req := h.request(t, "/native/v1/messages", strings.NewReader(gzipped(t, large)))
			req.Header.Set("Content-Encoding", "gzip")
			return req
		},
	} {
		req := send()
		req.Header.Set("X-Name", name)
		all.Go(func() {
			res, err := h.client.Do(req)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK || res.Header.Get("X-Llm-Cache-Bypass") != "no_room" {
				t.Errorf("%s: status %d, bypass %q", name, res.StatusCode, res.Header.Get("X-Llm-Cache-Bypass"))
			}
		})
	}
	for site, path := range map[string]string{
		"hosted": "/v1/chat/completions", "box": "/v1/chat/completions",
		"hosted ": "/v1/responses", "box ": "/v1beta/models/gemini-3-pro:generateContent",
	} {
		req := h.request(t, "/"+strings.TrimSpace(site)+path, strings.NewReader(large))
		all.Go(func() {
			res, err := h.client.Do(req)
			if err != nil {
				t.Errorf("%s: %v", site, err)
				return
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" ||
				!bytes.Contains(body, []byte(`"error"`)) || !bytes.Contains(body, []byte("too many large requests")) {
				t.Errorf("%s%s: status %d, Retry-After %q, %s", site, path, res.StatusCode, res.Header.Get("Retry-After"), body)
			}
		})
	}
	all.Wait()
	close(leave)
	holder.Wait()
	for _, got := range u.requests() {
		switch got.header.Get("X-Name") {
		case "plain", "chunked":
			if got.body != large {
				t.Errorf("%s: %d bytes arrived of %d", got.header.Get("X-Name"), len(got.body), len(large))
			}
		case "gzip":
			if got.body != gzipped(t, large) {
				t.Errorf("gzip: %d bytes arrived", len(got.body))
			}
		}
	}
	if reserved := h.metric(`caddy_llm_cache_memory_bytes{part="bodies"}`); reserved != 0 {
		t.Errorf("%v bytes are still held", reserved)
	}
	if res := h.post("/native/v1/messages", large); res.Header.Get("X-Llm-Cache-Session") == "" {
		t.Error("with room again, a large request is not read")
	}
}

func (h *hostility) request(t *testing.T, path string, body io.Reader) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h.addr+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return req
}

// TestCrowded: more entries than are read pass where they can, and are refused where
// they had to be read.
func TestCrowded(t *testing.T) {
	h := newHostility(t)
	for _, name := range []string{"many messages", "many keys", "brackets in a result"} {
		crowd := generators[slices.IndexFunc(generators, func(g generator) bool { return g.name == name })]
		size := 6 << 20 // 140,000 messages or more
		if name == "many keys" {
			size = 16 << 20 // more than a million
		}
		for i := range dialects {
			d := &dialects[i]
			body := crowd.make(t, d, size)
			for _, site := range sites {
				h.try(t, site, d, "crowded", body, "")
			}
			res := h.post("/hosted"+d.path, body)
			if answer := read(t, res); d.native != "hosted" &&
				(res.StatusCode != http.StatusBadRequest || !strings.Contains(answer, "more messages, blocks, parts or values")) {
				t.Errorf("%s: %s: status %d, %s", name, d.name, res.StatusCode, answer)
			}
			if res := h.post("/native"+d.path, body); res.Header.Get("X-Llm-Cache-Bypass") != "parse" {
				t.Errorf("%s: %s: %v", name, d.name, res.Header)
			}
		}
	}
}

// TestBombs: what decodes to very much more than was sent is neither read nor lost; a body
// that shrinks as much as one can in earnest is.
func TestBombs(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	bomb := dialects[0].say("CONTENT", `"`+strings.Repeat("x", 16<<20)+`"`)
	for coding, packed := range map[string]string{"gzip": gzipped(t, bomb), "zstd": zstandard(t, bomb)} {
		before := p.metric(`caddy_llm_cache_fail_open_total{reason="bomb"}`)
		res := p.post("/v1/messages", packed, "Content-Encoding", coding)
		if u.last().body != packed || res.StatusCode != http.StatusOK ||
			p.metric(`caddy_llm_cache_fail_open_total{reason="bomb"}`) != before+1 {
			t.Errorf("%s: status %d, %d bytes arrived of %d", coding, res.StatusCode, len(u.last().body), len(packed))
		}
	}
	var log strings.Builder
	for i := 0; log.Len() < 8<<20; i++ {
		fmt.Fprintf(&log, `2026-11-22 10:%02d:%02d INFO waiting for the build\n`, i/60%60, i%60)
	}
	for name, text := range map[string]string{"letters": strings.Repeat("x", 3<<20), "a log": log.String()} {
		packed := gzipped(t, dialects[0].say("CONTENT", `"`+text+`"`))
		t.Logf("%s shrink to 1/%d", name, len(text)/len(packed))
		if res := p.post("/v1/messages", packed, "Content-Encoding", "gzip"); res.Header.Get("X-Llm-Cache-Session") == "" {
			t.Errorf("%s: not read: %v", name, res.Header)
		}
	}
}
