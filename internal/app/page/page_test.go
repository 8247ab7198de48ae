// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

func turn(at time.Time, user, tenant string, usd, own float64) *audit.Record {
	return &audit.Record{
		At: at, Turns: 1, Kind: audit.KindTurn, User: user, Tenant: tenant, Session: "s-" + user, Client: "codex", Model: "m", Outcome: audit.Completed,
		USD: usd, ClientUSD: own, Cost: usd * 1e6, ClientCost: own * 1e6, OriginalTokens: 100, SentTokens: 60,
	}
}

// TestTally: today's turns count from midnight, the hours go back a day, and a user with a new name
// keeps the earlier counts.
func TestTally(t *testing.T) {
	now := time.Date(2026, 3, 4, 10, 30, 0, 0, time.UTC)
	l := NewTally(func() time.Time { return now })
	l.Add(turn(now, "f00d", "f00d", 1, 3))
	l.Add(turn(now, "anna", "f00d", 1, 2))
	l.Add(turn(now.Add(-time.Hour), "ben", "b", 1, 1))
	l.Add(turn(now.Add(-20*time.Hour), "ben", "b", 1, 1)) // yesterday
	d := l.Today()
	if d.Total.Turns != 3 || d.Total.Saved() != 3 || d.Total.Removed != 120 || len(d.Hours) != 3 || !d.Since.Equal(now) {
		t.Errorf("%+v", d)
	}
	if len(d.People) != 2 || d.People[0].Name != "anna" || d.People[0].Saved() != 3 || len(d.Clients) != 1 || len(d.Models) != 1 {
		t.Errorf("%+v", d.People)
	}
	if w := l.Whose("s-anna"); w != (Whose{User: "anna", Client: "codex"}) {
		t.Errorf("%+v", w)
	}
	now = now.Add(16 * time.Hour)
	if d := l.Today(); d.Total.Turns != 0 || len(d.People) != 0 || len(d.Hours) != 2 {
		t.Errorf("the next day: %+v", d)
	}
	for i := range 2 * mostNames {
		l.Add(turn(now, fmt.Sprint("p", i), "x", 1, 1))
	}
	if d := l.Today(); len(d.People) > mostNames+1 || d.Total.Turns != 2*mostNames {
		t.Errorf("%d people are told apart", len(d.People))
	}
	now = now.Add(24 * time.Hour)
	for i := range 2 * mostNames { // refused requests
		l.Add(&audit.Record{At: now, Turns: 1, User: fmt.Sprint("p", i), Tenant: "x"})
	}
	l.Add(turn(now, "anna", "f00d", 1, 2))
	if d := l.Today(); d.Total.Turns != 2*mostNames+1 || d.People[0].Name != "anna" {
		t.Errorf("strangers have left no room: %+v", d.People[0])
	}
}

// past is a source of records.
type past []*audit.Record

func (p past) Each(_ context.Context, since time.Time, f func(*audit.Record) error) error {
	for _, r := range p {
		if !r.At.Before(since) {
			if err := f(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (past) Close() error { return nil }

// TestSeed: earlier records count once, and from midnight on.
func TestSeed(t *testing.T) {
	now := time.Date(2026, 3, 4, 10, 30, 0, 0, time.UTC)
	l := NewTally(func() time.Time { return now })
	live := turn(now.Add(time.Second), "anna", "a", 1, 2)
	now = now.Add(time.Minute)
	l.Add(live)
	if err := l.Seed(t.Context(), past{turn(now.Add(-30*time.Hour), "anna", "a", 1, 9), turn(now.Add(-11*time.Hour), "anna", "a", 1, 9), turn(now.Add(-time.Hour), "anna", "a", 1, 5), live}); err != nil {
		t.Fatal(err)
	}
	if d := l.Today(); d.Total.Turns != 2 || d.Total.Saved() != 5 || !d.Since.Equal(time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", d)
	}
}

// TestServe: the page is small, loads nothing from elsewhere and is read-only. Its stream ends with
// the server.
func TestServe(t *testing.T) {
	views := 0
	p := New(func() View { views++; return View{Now: time.Now(), Sessions: Sessions{Total: views}} })
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
	if header.Get("Content-Security-Policy") != policy || strings.Contains(policy, "unsafe") || header.Get("Cache-Control") != "no-cache" {
		t.Errorf("%v", header)
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
		if elsewhere := regexp.MustCompile(`https?://[^"' ]+`).FindAllString(strings.ReplaceAll(body, svgNamespace, ""), -1); len(elsewhere) > 1 { // the example of a client
			t.Errorf("%s refers to %v", name, elsewhere)
		}
		total += len(body)
	}
	if total > 150<<10 {
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
	p := New(func() View { return View{} })
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
		v.Sessions.List = append(v.Sessions.List, Session{ID: fmt.Sprint(i), Model: "claude-opus-4-6", Used: now, Until: &now, Decision: "no gain"})
	}
	p := New(func() View { return v })
	for b.Loop() {
		p.at = time.Time{}
		p.data()
	}
}
