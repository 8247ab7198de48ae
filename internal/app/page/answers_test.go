// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// records is a source that counts its readings.
type records struct {
	all   []*audit.Record
	read  int
	since time.Time // of the last reading
	err   error
}

func (r *records) Each(_ context.Context, since time.Time, f func(*audit.Record) error) error {
	r.read, r.since = r.read+1, since
	for _, one := range r.all {
		if !one.At.Before(since) && r.err == nil {
			if err := f(one); err != nil {
				return err
			}
		}
	}
	return r.err
}

func (*records) Close() error { return nil }

func get(p *Page, path string) (status int, body string, header http.Header) {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String(), w.Result().Header
}

// TestRanges: past days come from the store, which is read once a minute at most, and no further back than the range
// and the time before it.
func TestRanges(t *testing.T) {
	now := time.Date(2026, 3, 18, 15, 30, 0, 0, time.Local)
	turn := func(days int, user string) *audit.Record {
		return &audit.Record{
			At: now.AddDate(0, 0, -days), Turns: 1, Kind: audit.KindTurn, User: user, Tenant: "t " + user, Session: "s " + user,
			Model: "m", Client: "codex", Outcome: audit.Completed, USD: 1, ClientUSD: 2, Cost: 10, ClientCost: 20,
			Content: &audit.Content{Prompt: json.RawMessage(`"secret"`)},
		}
	}
	store := &records{}
	for days := 70; days >= 0; days-- {
		store.all = append(store.all, turn(days, []string{"anna", "=ben"}[days%2]))
	}
	from := audit.Source(store)
	p := New(Source{
		Today:   func() audit.Period { return audit.Period{Total: &audit.Sum{Turns: 7}} },
		Records: func() audit.Source { return from },
		Recent:  func(f audit.Filter) []audit.Turn { return []audit.Turn{{User: f.User, Reason: "in memory"}} },
	})
	p.answers.now = func() time.Time { return now }
	for _, test := range []struct {
		name          string
		turns, before int64
		days, back    int
	}{
		{"today", 7, 0, 0, 0}, {"7d", 7, 6, 7, 13}, {"30d", 30, 29, 30, 59}, {"month", 18, 17, 18, 45},
	} {
		status, body, header := get(p, "/any/period?range="+test.name)
		var got audit.Period
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK ||
			header.Get("Cache-Control") != "no-store" || header.Get("Content-Security-Policy") != policy {
			t.Errorf("%s: %d, %v, %v", test.name, status, err, header)
			continue
		}
		if got.Total.Turns != test.turns || len(got.Trend) != test.days || got.Before != nil && got.Before.Turns != test.before {
			t.Errorf("%s: got %d turns in %d days, before %+v, want %+v", test.name, got.Total.Turns, len(got.Trend), got.Before, test)
		}
		if back := int(now.Sub(store.since).Hours()) / 24; test.back > 0 && back != test.back {
			t.Errorf("%s: read %d days, want %d", test.name, back, test.back)
		}
		if strings.Contains(body, "secret") || strings.Contains(body, "t anna") {
			t.Errorf("%s shows a prompt or a tenant: %s", test.name, body)
		}
	}

	_, csv, header := get(p, "/any/csv?range=7d&by=user")
	if lines := strings.Split(csv, "\n"); !strings.HasPrefix(lines[0], "user,turns,failed,") ||
		!strings.HasPrefix(lines[1], "anna,4,0,") || !strings.HasPrefix(lines[2], "'=ben,3,0,") ||
		!strings.HasPrefix(header.Get("Content-Type"), "text/csv") ||
		header.Get("Content-Disposition") != `attachment; filename="llm_cache-user-7d.csv"` {
		t.Errorf("got %q, %v", csv, header)
	}
	if store.read != 3 {
		t.Errorf("the store was read %d times, want once for each range", store.read)
	}
	now = now.Add(2 * time.Minute)
	if get(p, "/period?range=7d"); store.read != 4 {
		t.Errorf("after two minutes: read %d times, want once more", store.read)
	}

	_, body, _ := get(p, "/turns?user=anna&range=7d")
	var turns []audit.Turn
	if err := json.Unmarshal([]byte(body), &turns); err != nil || len(turns) != 4 || turns[0].User != "anna" ||
		!turns[0].At.After(turns[1].At) || strings.Contains(body, "secret") {
		t.Errorf("anna's turns: %v, %s", err, body)
	}
	if _, body, _ := get(p, "/turns?session=s+anna"); strings.Count(body, `"at"`) != 1 {
		t.Errorf("turns of a session today: %s", body)
	}

	for path, want := range map[string]int{
		"/period?range=year": 400, "/csv?range=7d&by=secret": 400, "/csv?range=7d": 400, "/turns": 400, "/turns?range=7d": 400,
	} {
		if status, body, _ := get(p, path); status != want {
			t.Errorf("%s: got %d %s, want %d", path, status, body, want)
		}
	}
	store.err = errors.New("dial postgres://lead:password@db")
	if status, body, _ := get(p, "/period?range=30d&again"); status != http.StatusOK && status != http.StatusServiceUnavailable ||
		strings.Contains(body, "password") {
		t.Errorf("a failing store: %d %s", status, body)
	}
	now = now.Add(time.Hour)
	if status, body, _ := get(p, "/csv?range=30d&by=user"); status != http.StatusServiceUnavailable ||
		strings.Contains(body, "password") {
		t.Errorf("a failing store: %d %s", status, body)
	}

	from = nil
	if status, body, _ := get(p, "/period?range=30d"); status != http.StatusNotFound || !strings.Contains(body, "audit") {
		t.Errorf("without a store: %d %s", status, body)
	}
	if _, body, _ := get(p, "/turns?user=carla"); !strings.Contains(body, "in memory") {
		t.Errorf("turns without a store: %s", body)
	}
}
