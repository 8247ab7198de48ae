// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/version"
)

// TestServe: the page is small, loads nothing from elsewhere and is read-only. Its stream ends with
// the server.
func TestServe(t *testing.T) {
	views := 0
	p := New(Source{Look: func() View { views++; return View{Now: time.Now(), Sessions: Sessions{Total: views}} }})
	s := httptest.NewServer(p)
	defer s.Close()
	get := func(method, path string) (status int, header http.Header, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Header, string(b)
	}
	_, header, html := get(http.MethodGet, "/any/folder/")
	total := len(html)
	if header.Get("Content-Security-Policy") != policy || strings.Contains(policy, "unsafe") ||
		header.Get("Cache-Control") != "no-cache" {
		t.Errorf("%v", header)
	}
	if want := "llm_cache " + version.String() + "</p>"; !strings.Contains(html, want) {
		t.Errorf("the footer has no %q", want)
	}
	files := regexp.MustCompile(`page-[0-9a-f]{12}\.(js|css)`).FindAllString(html, -1)
	if len(files) != 2 {
		t.Fatalf("it refers to %v", files)
	}
	for _, name := range files {
		status, header, body := get(http.MethodGet, "/any/folder/"+name)
		if status != http.StatusOK || !strings.Contains(header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", name, status, header)
		}
		// the example of a client
		if elsewhere := regexp.MustCompile(`https?://[^"' ]+`).FindAllString(strings.ReplaceAll(body, svgNamespace, ""),
			-1); len(elsewhere) > 1 {
			t.Errorf("%s refers to %v", name, elsewhere)
		}
		total += len(body)
	}
	if total > 60<<10 {
		t.Errorf("%d bytes", total)
	}
	if status, _, _ := get(http.MethodPost, "/"); status != http.StatusMethodNotAllowed {
		t.Errorf("a POST: %d", status)
	}
	if status, _, _ := get(http.MethodGet, "/page.html"); status != http.StatusNotFound {
		t.Errorf("no such file: %d", status)
	}
	stream, err := s.Client().Get(s.URL + "/events") //nolint:noctx // it ends with the server
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	events := 0
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), `data: {"now":`) {
			if events++; events == 2 {
				if err := s.Config.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if events != 2 {
		t.Errorf("%d events", events)
	}
}

// TestStreamEndsWhole: a stream ends properly at shutdown, however long ago its last event was.
// Browsers report a stream that breaks off.
func TestStreamEndsWhole(t *testing.T) {
	p := New(Source{Look: func() View { return View{} }})
	p.writeTime = 20 * time.Millisecond
	s := httptest.NewServer(p)
	defer s.Close()
	stream, err := s.Client().Get(s.URL + "/events") //nolint:noctx // it ends with the server
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * p.writeTime) // the write deadline has passed
	if err := s.Config.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(lines); err != nil {
		t.Errorf("the stream breaks off: %v", err)
	}
}

const svgNamespace = "http://www.w3.org/2000/svg"

// BenchmarkView measures the cost of a view, which all viewers share.
func BenchmarkView(b *testing.B) {
	now := time.Now()
	v := View{Now: now}
	for i := range 60 {
		v.Sessions.List = append(v.Sessions.List, Session{
			ID: fmt.Sprint(i), Model: "claude-opus-4-6", Used: now, Until: &now,
			Decision: "no gain",
		})
	}
	p := New(Source{Look: func() View { return v }})
	for b.Loop() {
		p.at = time.Time{}
		p.data()
	}
}
