// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
)

// TestStalledUploads: uploads that announce much, bring little and stall take the memory
// of nobody who needs it. Requests beside them are read at once, be they small or large,
// and the uploads that gave way are told so in their own API's words.
func TestStalledUploads(t *testing.T) {
	// After budget.Patience an upload passes unread, so the end of the test cuts it in the middle.
	u := &upstream{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			answerMessage(w, r, 0)
		}
	}))}
	t.Cleanup(u.Close)
	p := start(t, plain(u))
	room := budget.Of(p.caddy.Instance).Limit()
	defer budget.Of(p.caddy.Instance).Resize(room)
	budget.Of(p.caddy.Instance).Resize(24 << 20)

	const uploads = 60
	beginning := conversation(1, false)
	beginning = strings.TrimSuffix(beginning, "]}") + strings.Repeat(" ", 300_000)
	var answers sync.Map // by connection
	var all sync.WaitGroup
	stalled := make([]net.Conn, uploads)
	for i := range stalled {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		stalled[i] = c
		length := "Content-Length: 31000000\r\n\r\n" + beginning
		if i%3 == 0 { // of no announced length
			length = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(beginning), beginning)
		}
		if _, err := io.WriteString(c, "POST /v1/messages HTTP/1.1\r\nHost: "+p.addr+"\r\nContent-Type: application/json\r\n"+
			length); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				return // the end of the test
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			answers.Store(i, fmt.Sprint(res.StatusCode, " ", string(body)))
		})
		time.Sleep(25 * time.Millisecond) // 40 a second
	}
	large := strings.Replace(conversation(1, false), "Fix the build", strings.Repeat("many words ", 250_000), 1)
	for name, body := range map[string]string{"small": conversation(2, false), "large": large} {
		for range 3 {
			before := time.Now()
			res := p.post("/v1/messages", body, "X-Api-Key", "sk-honest")
			if took := time.Since(before); res.Header.Get("X-Llm-Cache-Session") == "" || took >= budget.Patience {
				t.Errorf("a %s request beside stalled uploads: %s after %v, %v", name, res.Status, took, res.Header)
			}
		}
	}
	if p.metric("caddy_llm_cache_bodies_gave_way_total") == 0 {
		t.Error("no upload gave way")
	}
	for _, c := range stalled {
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
	}
	all.Wait()
	responses := 0
	answers.Range(func(_, v any) bool {
		responses++
		if s := v.(string); !strings.HasPrefix(s, "503 ") || !strings.Contains(s, `"type":"error"`) ||
			!strings.Contains(s, "stalled") {
			t.Errorf("an upload that gave way was told %s", s)
		}
		return true
	})
	if responses == 0 {
		t.Error("no upload was told that it gave way")
	}
}
