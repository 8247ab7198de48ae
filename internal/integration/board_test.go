// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

const alerts = "../../packaging/alerts.yml"

// queries are those of the board and of the alerts.
func queries(t *testing.T) (board, rules []string) {
	t.Helper()
	b, err := os.ReadFile("../../packaging/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, panel := range gjson.GetBytes(b, "panels").Array() {
		if panel.Get("type").Str == "row" && !strings.HasSuffix(panel.Get("title").Str, "?") {
			t.Errorf("the row %q is no question", panel.Get("title").Str)
		}
		for _, target := range panel.Get("targets").Array() {
			board = append(board, target.Get("expr").Str)
		}
	}
	b, err = os.ReadFile(alerts)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^        expr: (?:\|\n((?:          .*\n)+)|(.*))`).FindAllStringSubmatch(string(b), -1) {
		rules = append(rules, strings.TrimSpace(m[1]+m[2]))
	}
	if len(board) < 20 || len(rules) != strings.Count(string(b), "- alert:") {
		t.Fatalf("%d queries of the board, %d of alerts", len(board), len(rules))
	}
	return board, rules
}

// TestBoard: what the board and the alerts ask for is there, before the first request and
// with it, and each query has an answer in Prometheus.
func TestBoard(t *testing.T) {
	board, rules := queries(t)
	p, _ := folding(t, true, func(name string, at int, _ *http.Request) said {
		if at == 1 {
			return said{sayExpand("toolu_e", name)}
		}
		return said{sayText("I see.")}
	})
	read(t, p.post("/v1/messages", agent(5, true)))
	var text string
	p.adminDo(http.MethodGet, "/metrics", &text)
	for _, query := range append(board, rules...) {
		for _, name := range regexp.MustCompile(`caddy_llm_cache_\w+`).FindAllString(query, -1) {
			if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(text) {
				t.Errorf("there is no %s", name)
			}
		}
	}
	prometheus, err := exec.LookPath("prometheus")
	promtool, err2 := exec.LookPath("promtool")
	if err != nil || err2 != nil {
		t.Skip("no prometheus and promtool here: the queries are not run")
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", alerts).CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
	lint := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	lint.Stdin = strings.NewReader(ours(text))
	if out, err := lint.CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
	at := scraping(t, prometheus, p.admin)
	answer := func(query string) gjson.Result {
		t.Helper()
		query = strings.NewReplacer("$__rate_interval", "30s", "$__range", "1m").Replace(query)
		var body string
		get(t, "http://"+at+"/api/v1/query?query="+url.QueryEscape(query), &body)
		if gjson.Get(body, "status").Str != "success" {
			t.Fatalf("%s\n%s", query, body)
		}
		return gjson.Get(body, "data.result")
	}
	for i, began := 0, time.Now(); ; i++ {
		read(t, p.post("/v1/messages", agent(6+min(i, 100), true)))
		if n := answer("count_over_time(caddy_llm_cache_sessions[1m])").Get("0.value.1").Int(); n >= 3 {
			break
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatal("nothing is scraped")
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, query := range board { // a scrape that comes too late takes what is now away until the next
		for began := time.Now(); len(answer(query).Array()) == 0; time.Sleep(100 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("%s has no answer", query)
			}
		}
	}
	for _, query := range rules {
		answer(query)
	}
}

// ours are the metrics of this module.
func ours(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, "caddy_llm_cache_") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// scraping runs a Prometheus that reads the metrics at an address, until the test ends.
func scraping(t *testing.T, program, target string) (at string) {
	t.Helper()
	dir, at := t.TempDir(), testkit.FreeAddress(t)
	rules, err := filepath.Abs(alerts)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := json.Marshal(map[string]any{ // YAML is a superset
		"global":     map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{rules},
		"scrape_configs": []any{map[string]any{
			"job_name":       "caddy",
			"static_configs": []any{map[string]any{"targets": []string{target}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, cfg, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--config.file="+file, "--storage.tsdb.path="+
		filepath.Join(dir, "data"), "--web.listen-address="+at)
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 600 {
		var body string
		if get(t, "http://"+at+"/-/ready", &body) == http.StatusOK {
			return at
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("it does not start: %s", log.String())
	return ""
}

// get reads what is at an address, 0 where nobody is.
func get(t *testing.T, address string, body *string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req) //nolint:bodyclose // read closes it
	if err != nil {
		*body = fmt.Sprint(err)
		return 0
	}
	*body = read(t, response{res})
	return res.StatusCode
}
