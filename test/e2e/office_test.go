// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
)

// office is a Caddy of a team: a hosted model with a cache, one under observe, and a local server
// with a queue, with records of a day, names, budgets and a page. The users and their earlier
// spending are invented. Requests of the test itself are real.
type office struct {
	*stack
	record string // the file of records
	zone   *time.Location
	leave  chan struct{} // closed to release the requests that occupy the local server
}

// mostSlots is the number of concurrent requests of the local server.
const mostSlots = 2

// zones are time zones, of which one is always in its afternoon.
var zones = []string{
	"Pacific/Auckland", "Asia/Tokyo", "Asia/Kolkata", "Europe/Berlin", "America/Sao_Paulo",
	"America/New_York", "America/Los_Angeles", "Pacific/Honolulu",
}

// afternoon returns a time zone in which the day is well advanced, so that there are turns of
// today.
func afternoon(now time.Time) (found *time.Location) {
	best := 24
	for _, name := range zones {
		at, err := time.LoadLocation(name)
		if err != nil {
			continue
		}
		if off := max(now.In(at).Hour(), 16) - min(now.In(at).Hour(), 16); off < best {
			best, found = off, at
		}
	}
	if found == nil {
		return time.UTC
	}
	return found
}

func openOffice(t *testing.T) *office {
	t.Helper()
	needCaddy(t)
	addrs, err := caddy.FreeAddrs(2)
	if err != nil {
		t.Fatal(err)
	}
	o := &office{leave: make(chan struct{}), stack: &stack{url: "http://" + addrs[1], dir: t.TempDir()}}
	o.record = filepath.Join(o.dir, "audit.db")
	u := httptest.NewServer(o.model())
	t.Cleanup(u.Close)
	behind := "\n reverse_proxy " + u.Listener.Addr().String()
	o.config = strings.Replace(site(addrs[0], addrs[1], "front", `handle /team/* {
 basic_auth {
  lead $2a$14$.gLApYXZmO1i7rNLkE5k/eKikkjqXuJDUPKZNO8hae73UIztTw4nq
 }
 llm_cache_dashboard
}
handle /watched/* {
 llm_cache {
  policy observe
  planner {
   risk 100
  }
 }`+behind+`
}
handle /box/* {
 llm_cache {
  upstream mlx_lm
  queue {
   slots `+fmt.Sprint(mostSlots)+`
  }
 }`+behind+`
}
handle {
 llm_cache {
  planner {
   risk 100
  }
  keepalive {
   min_tokens 1000
  }
 }`+behind+`
}`), "auto_https off", `auto_https off
 llm_cache {
  audit sqlite {
   path `+o.record+`
   interval 100ms
  }
  user anna sk-anna
  user ben sk-ben
  user dora sk-dora
  user eve sk-eve
  user nightly-build sk-ci
  budget anna $40 day
  budget ben $6 day
  budget nightly-build 20000000 tokens day soft
  budget * $400 month
 }`, 1)
	o.zone = afternoon(time.Now())
	run := func(name string) *caddy.Process {
		dir := filepath.Join(o.dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		p, err := caddy.Start(ctx, binary, dir, addrs[0], o.config, "TZ="+o.zone.String())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	// The first run creates the store. The second has to count the records in it.
	if err := run("first").Stop(); err != nil {
		t.Fatal(err)
	}
	o.remember(t, time.Now().In(o.zone))
	o.Process = run("front")
	t.Cleanup(func() {
		if err := o.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the log ends with\n%s", o.LogTail())
		}
	})
	return o
}

// model answers like a provider with a cache, and at /box/ like a local server, which delays
// requests that ask for it.
func (o *office) model() http.HandlerFunc {
	hosted := remembering()
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/box/") {
			hosted(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		read := 0
		if bytes.Contains(body, []byte("Go on")) {
			read = 20_900
		}
		if r.Header.Get("X-Hold-Up") != "" {
			select {
			case <-o.leave:
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w,
			`{"id":"c","object":"chat.completion","model":"qwen3-coder","choices":[{"index":0,"message":{"role":"assistant","content":"Done."},"finish_reason":"stop"}],
			"usage":{"prompt_tokens":21000,"completion_tokens":300,"total_tokens":21300,"prompt_tokens_details":{"cached_tokens":%d}}}`, read)
	}
}

// turn is a recorded turn, by column.
type row map[string]any

// remember records the turns of a day, in the working hours before now.
func (o *office) remember(t *testing.T, now time.Time) {
	t.Helper()
	db, err := sql.Open("sqlite", o.record)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range yesterday(now) {
		columns := slices.Sorted(maps.Keys(r))
		values := []any{fmt.Sprintf("00000000-0000-7000-8000-%012x", i)}
		for _, c := range columns {
			values = append(values, r[c])
		}
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO turns (id, "+strings.Join(columns, ", ")+") VALUES (?"+
			strings.Repeat(", ?", len(columns))+")", values...); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// yesterday returns invented turns since then.
func yesterday(now time.Time) (all []row) {
	random := rand.New(rand.NewPCG(3, 4)) // deterministic
	for back := 23; back >= 1; back-- {
		hour := now.Add(-time.Duration(back) * time.Hour).Truncate(time.Hour)
		for _, p := range []struct {
			name, client, model string
			dollars             float64 // for a million of uncached tokens
			from, to, turns     int     // working hours
			saves               float64
		}{
			{"anna", "claude-code", "claude-opus-4-6", 5, 8, 18, 34, 0.31},
			{"ben", "opencode", "claude-sonnet-4-6", 3, 9, 19, 26, 0.27},
			{"frank", "codex", "gpt-6.1", 2.5, 8, 16, 18, 0.12},
			{"dora", "claude-code", "claude-opus-4-6", 5, 10, 20, 12, 0},
			{"nightly-build", "claude-code", "claude-sonnet-4-6", 3, 1, 4, 40, 0.36},
			{"eve", "gemini-cli", "qwen3-coder", 0, 9, 17, 14, 0.22},
		} {
			if h := hour.Hour(); h < p.from || h >= p.to {
				continue
			}
			for i := range p.turns/2 + random.IntN(p.turns) {
				prompt := 30_000 + random.IntN(90_000)
				read := prompt * (84 + random.IntN(12)) / 100
				removed, output, first := int(p.saves*float64(prompt)), 200+random.IntN(900), 300_000+random.IntN(900_000)
				cost := 0.1*float64(read) + 1.25*float64(prompt-read) + 5*float64(output)
				unedited := cost / (1 - p.saves*(0.7+0.6*random.Float64()))
				r := row{
					"at":    hour.Add(time.Duration(random.IntN(3600)) * time.Second).UTC().Format("2006-01-02 15:04:05.000000"),
					"turns": 1, "kind": "turn",
					"tenant": "of " + p.name, "user_id": p.name, "session": fmt.Sprintf("%s-%d", p.name, hour.Hour()/3),
					"conversation": 0, "client": p.client, "model": p.model,
					"client_format": "anthropic", "upstream_format": "anthropic", "policy": "cost_aware", "stream": true,
					"original_tokens": prompt + removed, "sent_tokens": prompt,
					"uncached": 0, "write_5m": prompt - read, "write_1h": 0, "read": read, "read_estimated": 0, "output": output,
					"client_uncached": 0, "client_write_5m": prompt - read + removed/2, "client_write_1h": 0, "client_read": read +
						removed/2,
					"cost": cost, "client_cost": unedited, "usd": cost * p.dollars / 1e6, "client_usd": unedited * p.dollars / 1e6,
					"would_save": 0.0, "would_save_usd": 0.0,
					"edits": nil, "epoch": "", "reason": "", "folded": 0, "removed": 0, "rewritten": 0, "break": "",
					"queue_us": 300 + random.IntN(900), "first_byte_us": first, "first_token_us": first + 40_000,
					"last_token_us": first + 2_000_000 + random.IntN(9_000_000), "total_us": first + 12_000_000,
					"status": 200, "outcome": "completed", "stop_reason": "end_turn", "resent": false,
				}
				if p.saves > 0 {
					r["edits"] = fmt.Sprintf(`[{"stage":"admission","count":%d,"tokens":%d},{"stage":"prune","count":%d,"tokens":%d}]`,
						4+i%5, removed/3, 1+i%3, removed*2/3)
				}
				if p.saves > 0 && i%9 == 0 {
					r["epoch"], r["folded"], r["removed"] = [...]string{"boundary", "cold", "rewritten"}[i/9%3], 12, removed
				}
				if p.name == "dora" {
					r["policy"], r["would_save"], r["would_save_usd"] = "observe", 0.3*cost, 0.3*cost*p.dollars/1e6
				}
				if p.name == "eve" {
					r["read_estimated"] = read
				}
				if i%11 == 3 {
					r["break"] = [...]string{"expired", "model", "messages"}[i/11%3]
				}
				if i%29 == 7 {
					r["outcome"], r["status"] = "failed", 529
				}
				all = append(all, r)
			}
		}
	}
	return all
}

// TestOfficeDay: at any hour of the test, ben has spent his daily limit, and no other user has.
func TestOfficeDay(t *testing.T) {
	limits := map[any]float64{"anna": 40, "ben": 6, "dora": 400, "frank": 400}
	start := time.Date(2026, 11, 23, 0, 5, 0, 0, time.UTC)
	for at := start; at.Before(start.AddDate(1, 0, 0)); at = at.Add(73*time.Hour + 10*time.Minute) {
		now := at.In(afternoon(at))
		spent := map[any]float64{}
		for _, r := range yesterday(now) {
			when, err := time.Parse("2006-01-02 15:04:05.000000", r["at"].(string))
			if err != nil {
				t.Fatal(err)
			}
			if when.In(now.Location()).Day() == now.Day() {
				spent[r["user_id"]] += r["usd"].(float64)
			}
		}
		for who, most := range limits {
			if refused := spent[who] >= most; refused != (who == "ben") {
				t.Errorf("at %s %s has spent $%.2f of $%.2f", now, who, spent[who], most)
			}
		}
	}
}

// work runs the users' conversations. Some requests wait for the local server until the office
// closes.
func (o *office) work(t *testing.T) (waiting *sync.WaitGroup) {
	t.Helper()
	ask := func(path, key, agent, session, body string, more ...string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.url+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header = http.Header{
			"Content-Type": {"application/json"}, "X-Api-Key": {key}, "User-Agent": {agent},
			"X-Session-Id": {key + session},
		}
		for i := 0; i < len(more); i += 2 {
			req.Header.Set(more[i], more[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		answer, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s at %s: %s: %s", key, path, res.Status, answer)
		}
	}
	talk := func(path, key, agent, model string, from, to int) {
		for n := from; n < to; n++ {
			m := model
			if n == to-1 {
				// The other model has none of it cached, so that history is folded.
				m = strings.Replace(model, "4-6", "4-5", 1)
			}
			ask(path, key, agent, "", spends(m, n))
		}
	}
	talk("/v1/messages", "sk-anna", "claude-cli/2.1.3", "claude-opus-4-6", 20, 32)
	talk("/v1/messages", "sk-carla", "claude-cli/2.1.3", "claude-opus-4-6", 8, 14)
	talk("/watched/v1/messages", "sk-dora", "claude-cli/2.1.3", "claude-opus-4-6", 12, 19)
	chat := `{"model":"qwen3-coder","messages":[{"role":"system","content":"You are an agent."},{"role":"user",` +
		`"content":"Fix the build. ` + strings.Repeat("Some code that the box reads. ", 2500) + `"}]}`
	further := strings.TrimSuffix(chat, "]}")
	for i := range 4 {
		ask("/box/v1/chat/completions", "sk-eve", "gemini-cli/0.61", "", further+"]}")
		further += fmt.Sprintf(`,{"role":"assistant","content":"Done."},{"role":"user","content":"Go on: %d."}`, i)
	}
	waiting = new(sync.WaitGroup)
	for i, key := range []string{"sk-eve", "sk-ci", "sk-dora", "sk-ci"} {
		waiting.Go(func() {
			ask("/box/v1/chat/completions", key, "opencode/1.0", fmt.Sprint("-", i), chat, "X-Hold-Up", "yes")
		})
	}
	return waiting
}
