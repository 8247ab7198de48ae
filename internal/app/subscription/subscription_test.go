// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package subscription

import (
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func header(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Set(name, value)
	}
	return h
}

func TestRead(t *testing.T) {
	in := func(d time.Duration) time.Time { return now.Add(d) }
	unix := func(d time.Duration) string { return fmt.Sprint(now.Add(d).Unix()) }
	long := strings.Repeat("x", 40)
	for _, c := range []struct {
		name string
		from http.Header
		want Windows
	}{
		{"of a key", header("anthropic-ratelimit-requests-remaining: 9", "request-id: r", "x-ratelimit-limit-requests: 9"), nil},
		{"Claude", header("anthropic-ratelimit-unified-status: allowed", "anthropic-ratelimit-unified-reset: "+unix(time.Hour),
			"anthropic-ratelimit-unified-representative-claim: five_hour",
			"anthropic-ratelimit-unified-7d-utilization: 0.3", "anthropic-ratelimit-unified-7d-status: allowed_warning",
			"anthropic-ratelimit-unified-7d-reset: 2026-11-30T12:00:00Z",
			"anthropic-ratelimit-unified-5h-utilization: 0.42", "anthropic-ratelimit-unified-5h-status: allowed",
			"anthropic-ratelimit-unified-5h-reset: "+unix(time.Hour)), Windows{
			{"claude 5h", 0.42, in(time.Hour), "allowed"}, {"claude 7d", 0.3, in(48 * time.Hour), "allowed_warning"},
		}},
		{
			"an unknown window", header("anthropic-ratelimit-unified-7d_moon-utilization: 1.02"),
			Windows{{Name: "claude 7d_moon", Used: 1.02}},
		},
		{"Codex", header("x-codex-primary-used-percent: 12.5", "x-codex-primary-window-minutes: 300",
			"x-codex-primary-reset-at: "+unix(time.Hour), "x-codex-primary-reset-after-seconds: 7",
			"x-codex-secondary-used-percent: 84", "x-codex-secondary-window-minutes: 10080",
			"x-codex-secondary-reset-after-seconds: 3600", "x-codex-plan-type: plus",
			"x-codex-bengalfox-primary-used-percent: 1", "x-codex-bengalfox-primary-window-minutes: 90"), Windows{
			{"codex 5h", 0.125, in(time.Hour), ""}, {"codex 7d", 0.84, in(time.Hour), ""}, {Name: "codex-bengalfox 90m", Used: 0.01},
		}},
		{"without a length", header("x-codex-secondary-used-percent: 50"), Windows{{Name: "codex secondary", Used: 0.5}}},
		{"nothing that anyone has used", header("x-codex-primary-used-percent: 0"), nil},
		{"no numbers", header("anthropic-ratelimit-unified-5h-utilization: much", "anthropic-ratelimit-unified-7d-utilization: NaN",
			"anthropic-ratelimit-unified-8d-utilization: -1", "x-codex-primary-used-percent: ", "x-disk-used-percent: 9"), nil},
		{
			"out of bounds", header("anthropic-ratelimit-unified-"+long+"-utilization: 1e99",
				"anthropic-ratelimit-unified-"+long+"-status: <b>\x1b[0m", "anthropic-ratelimit-unified-"+long+"-reset: 1e300"),
			Windows{{Name: ("claude " + long)[:maxWord], Used: maxUsed, Status: "_b___0m"}},
		},
	} {
		if got := Read(c.from, now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%+v, want\n%+v", c.name, got, c.want)
		}
	}
	many := http.Header{}
	for i := range 50 {
		many.Set(fmt.Sprintf("anthropic-ratelimit-unified-%dd-utilization", i), "0.5")
	}
	if got := Read(many, now); len(got) != maxWindows {
		t.Errorf("%d of 50 windows, want %d", len(got), maxWindows)
	}
	plain := header("content-type: text/event-stream", "x-request-id: r", "anthropic-ratelimit-tokens-limit: 9")
	if n := testing.AllocsPerRun(100, func() { Read(plain, now) }); n != 0 {
		t.Errorf("%v allocations without windows, want 0", n)
	}
}

func TestReadEvent(t *testing.T) {
	at := now.Add(time.Hour)
	for event, want := range map[string]Windows{
		fmt.Sprintf(`{"type":"codex.rate_limits","plan_type":"pro","rate_limits":{"allowed":true,"primary":{"used_percent":40,`+
			`"window_minutes":300,"reset_at":%d},"secondary":{"used_percent":5.5,"window_minutes":10080,"reset_at":null}}}`, at.Unix()): {
			{"codex 5h", 0.4, at, ""}, {Name: "codex 7d", Used: 0.055},
		},
		`{"type":"codex.rate_limits","metered_limit_name":"gpt-reserve","rate_limits":{"primary":{"used_percent":2,` +
			`"window_minutes":1440},"secondary":null}}`: {{Name: "gpt-reserve 1d", Used: 0.02}},
		`{"type":"codex.rate_limits","rate_limits":{"primary":{"used_percent":"all"}}}`: nil,
		`{"type":"codex.rate_limits"}`: nil,
		`broken`:                       nil,
	} {
		if got := ReadEvent(event, now); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, want\n%+v", event, got, want)
		}
	}
}

func TestScan(t *testing.T) {
	want := Windows{{"claude 5h", 0.42, now, "allowed"}, {Name: "codex 7d", Used: 1}}
	for _, v := range []any{want.Text(), []byte(want.Text().(string))} {
		var got Windows
		if err := got.Scan(v); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	got := want
	if err := got.Scan(Windows(nil).Text()); err != nil || got != nil {
		t.Errorf("NULL is %+v, %v", got, err)
	}
	if err := got.Scan(7); err == nil {
		t.Error("a number is read as windows")
	}
}

// TestSavedPoints: 10 dollars that went out made a window grow by 5 points, so 4 saved dollars are 2 points.
func TestSavedPoints(t *testing.T) {
	a, at := New(), now
	of := Key{"t1", "anthropic"}
	turn := func(used, spent, saved float64) {
		at = at.Add(time.Minute)
		a.Count(of, &Turn{
			User: "anna", At: at, Windows: Windows{{Name: "claude 5h", Used: used, Resets: now.Add(5 * time.Hour)}}, Spent: spent,
			Saved: saved,
		})
	}
	points := func() (used, points float64) {
		t.Helper()
		all := a.States()
		if len(all) != 1 || all[0].User != "anna" || all[0].Name != "claude 5h" {
			t.Fatalf("states are %+v", all)
		}
		if p := all[0].SavedPoints; p != nil {
			return all[0].Used, *p
		}
		return all[0].Used, math.NaN()
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 || math.IsNaN(a) && math.IsNaN(b) }
	for i, c := range []struct{ used, spent, saved, want float64 }{
		{0.10, 4, 2, math.NaN()}, // the first state: what was before is unknown
		{0.11, 4, 1, math.NaN()}, // 1 point is within rounding
		{0.14, 3, 1, 100 * 0.04 / 8 * 3},
		{0.15, 9, -5, 100 * 0.05 / 11 * 4}, // its own cost is in the next state
		{0.15, 0, 0, 100 * 0.05 / 20 * -1}, // edits may cost more than they save
		{0.02, 1, 1, math.NaN()},           // anew
	} {
		turn(c.used, c.spent, c.saved)
		if used, got := points(); used != c.used || !near(got, c.want) {
			t.Errorf("turn %d: %v used, %v points saved, want %v, %v", i, used, got, c.used, c.want)
		}
	}

	// A ping has no windows in its record, and its cost counts.
	turn(0.02, 0, 0)
	a.Count(of, &Turn{User: "anna", At: at, Spent: 1, Saved: -1})
	turn(0.04, 0, 0)
	if _, got := points(); !near(got, 0) {
		t.Errorf("a saving of 1 less a ping of 1 is %v points, want 0", got)
	}

	// The state of a request that came before the latest one is old.
	at = at.Add(-2 * time.Hour)
	turn(0.01, 0, 0)
	if used, _ := points(); used != 0.04 {
		t.Errorf("a turn that came earlier leaves %v used, want 0.04", used)
	}

	// After its reset a window is a new one, even if more of it is used.
	at = now.Add(6 * time.Hour)
	turn(0.5, 0, 0)
	if used, got := points(); used != 0.5 || !math.IsNaN(got) {
		t.Errorf("after the reset: %v used, %v points saved", used, got)
	}
}

func TestStates(t *testing.T) {
	a := New()
	count := func(tenant, user, name string, used float64, at time.Duration) {
		a.Count(Key{tenant, "f"}, &Turn{
			User: user, At: now.Add(at), Windows: Windows{{Name: name, Used: used, Resets: now.Add(time.Hour)}},
		})
	}
	count("new token", "anna", "claude 5h", 0.3, 2*time.Minute)
	count("old token", "anna", "claude 5h", 0.2, time.Minute)
	count("t2", "ben", "claude 5h", 0.9, 0)
	a.Count(Key{"t3", "f"}, &Turn{User: "carla", At: now, Spent: 9})
	all := a.States()
	if len(all) != 2 || all[0].User != "anna" || all[0].Used != 0.3 || all[1].User != "ben" || all[1].Used != 0.9 {
		t.Errorf("states are %+v, want anna's newest and ben's", all)
	}
	if got := a.Current(now.Add(59 * time.Minute)); len(got) != 2 {
		t.Errorf("before the reset: %+v", got)
	}
	if got := a.Current(now.Add(61 * time.Minute)); len(got) != 0 {
		t.Errorf("after the reset: %+v", got)
	}
	for i := range 2 * maxAccounts {
		count(fmt.Sprint("t", i), fmt.Sprint("u", i), "claude 5h", 0.1, 0)
	}
	if n := len(a.States()); n != maxAccounts {
		t.Errorf("%d accounts, want %d", n, maxAccounts)
	}
	for i := range 100 {
		count("one", "one", fmt.Sprint("claude ", i), 0.1, time.Hour)
	}
	n := 0
	for _, s := range a.States() {
		if s.User == "one" {
			n++
		}
	}
	if n != 2*maxWindows {
		t.Errorf("%d windows of one tenant, want %d", n, 2*maxWindows)
	}
}
