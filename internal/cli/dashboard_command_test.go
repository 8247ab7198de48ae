// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestOnlyThePage: only the page is let through from the admin endpoint, only to requests for a
// loopback name, and without the browser's headers.
func TestOnlyThePage(t *testing.T) {
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") != "" || r.Header.Get("Origin") != "" {
			t.Errorf("got %v", r.Header)
		}
		_, _ = io.WriteString(w, r.URL.RequestURI())
	}))
	defer admin.Close()
	h, err := Handler(strings.TrimPrefix(admin.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, method, path string
		want               int
	}{
		{"127.0.0.1:2020", http.MethodGet, "/", http.StatusOK},
		{"localhost:2020", http.MethodGet, "/", http.StatusOK},
		{"[::1]:2020", http.MethodHead, "/data", http.StatusOK},
		{"127.0.0.1:2020", http.MethodGet, "/events", http.StatusOK},
		{"127.0.0.1:2020", http.MethodGet, "/page-0123456789ab.js", http.StatusOK},
		{"127.0.0.1:2020", http.MethodGet, "/period?range=7d", http.StatusOK},
		{"rebound.example:2020", http.MethodGet, "/", http.StatusForbidden},
		{"", http.MethodGet, "/", http.StatusForbidden},
		{"127.0.0.1:2020", http.MethodDelete, "/data", http.StatusMethodNotAllowed},
		{"127.0.0.1:2020", http.MethodGet, "/sessions", http.StatusNotFound},
		{"127.0.0.1:2020", http.MethodGet, "/keepalive", http.StatusNotFound},
		{"127.0.0.1:2020", http.MethodGet, "/agents", http.StatusNotFound},
		{"127.0.0.1:2020", http.MethodGet, "/x/agents", http.StatusNotFound},
		{"127.0.0.1:2020", http.MethodGet, "/..", http.StatusNotFound},
	} {
		r := httptest.NewRequest(c.method, "http://x"+c.path, nil)
		r.Host = c.host
		r.Header.Set("Cookie", "secret=1")
		r.Header.Set("Origin", "https://rebound.example")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s %s%s: status %d, not %d: %s", c.method, c.host, c.path, w.Code, c.want, w.Body)
		}
		if got := w.Body.String(); c.method == http.MethodGet && w.Code == http.StatusOK && got != "/llm_cache"+c.path {
			t.Errorf("%s asks for %s", c.path, got)
		}
	}
}
