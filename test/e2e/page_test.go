// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// largestPage bounds the page in all, in bytes.
const largestPage = 60 << 10

// spends returns a user's conversation with that many turns, each with a result of several KB.
func spends(model string, turns int) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		`{"model":%q,"max_tokens":1000,"system":"You are an agent.","tools":[{"name":"Read",`+
			`"input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"Fix the build."}`, model)
	for i := range turns {
		fmt.Fprintf(&b,
			`,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_%d","name":"Read",`+
				`"input":{"file_path":"/src/file%d.go"}}]}`, i, i)
		result := strings.Repeat(fmt.Sprintf("line of file %d: some code that the model reads once\\n", i), 120)
		mark := ""
		if i == turns-1 {
			mark = `,"cache_control":{"type":"ephemeral"}`
		}
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":"%s"%s}]}`, i,
			result, mark)
	}
	b.WriteString(`]}`)
	return b.String()
}

// remembering is a model with a cache of the last prompt of each key. The common prefix with the
// next prompt is cached. Four bytes are a token.
func remembering() http.HandlerFunc {
	var mu sync.Mutex
	last := map[string]string{}
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		prompt := strings.ReplaceAll(string(body), `,"cache_control":{"type":"ephemeral"}`, "")
		mu.Lock()
		before, n := last[r.Header.Get("X-Api-Key")], 0
		last[r.Header.Get("X-Api-Key")] = prompt
		mu.Unlock()
		for n < len(before) && n < len(prompt) && before[n] == prompt[n] {
			n++
		}
		if n < 4096 {
			n = 0
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w,
			`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn","stop_sequence":null,
			"usage":{"input_tokens":3,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":300}}`, (len(prompt)-n)/4, n/4)
	}
}

// dashboard runs the command that serves the admin endpoint's page, and returns the address.
func (s *stack) dashboard(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "llm-cache", "dashboard", "--admin", s.Admin, "--listen",
		"127.0.0.1:0")
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "XDG_DATA_HOME="+s.dir, "XDG_CONFIG_HOME="+s.dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	at, err2 := url.Parse(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]))
	if err != nil || err2 != nil {
		t.Fatal(line, err, err2)
	}
	return at.Host
}

// TestPageEmpty: before the first request the page explains its contents.
func TestPageEmpty(t *testing.T) {
	needCaddy(t)
	v := newViewer(t, "UTC")
	u := httptest.NewServer(remembering())
	t.Cleanup(u.Close)
	at := startStack(t, setup{upstream: u.Listener.Addr().String(), unwatched: true}).dashboard(t)
	v.open(t, "http://"+at+"/", "html[data-ready]")
	v.look(t, "empty", "light")
	for element, want := range map[string]string{
		"#share": "No request has come yet", "#groups": "Nothing to count yet",
		"#sessions": "No conversation is held", "#system": "no request has been answered yet",
		"#strip": "Upstreams", "#basis": "there is no audit store",
	} {
		if text := v.text(t, element); !strings.Contains(text, want) {
			t.Errorf("%s says %q", element, text)
		}
	}
	v.fine(t, at)
}

// TestPage: the live page of a team in a browser, on the admin endpoint and as a directive of a
// site behind a password. There must be no error, no violation of its policy, no request to another
// host, no serious finding of axe, and no scroll bar at 360 pixels.
func TestPage(t *testing.T) {
	o := openOffice(t)
	v := newViewer(t, o.zone.String())
	waiting := o.work(t)
	defer waiting.Wait()
	defer close(o.leave)
	admin := o.dashboard(t)
	v.open(t, "http://"+admin+"/llm_cache/", "html[data-ready]")
	v.await(t,
		`document.querySelectorAll("#sessions tbody tr").length >= 4 && `+
			`document.querySelector("#queues").textContent.includes("2 waiting")`)
	v.look(t, "page", "light", "dark")
	for element, all := range map[string][]string{
		"#strip": {"Upstreams", "2 of 2 slots busy", "2 waiting", "Stores", "well", "Refused", "Failed"},
		"#today": {
			"Saved today", "of the $", "that the clients' own bytes would have cost", "measured, at list prices", "unpriced",
			"Saved in tokens", "estimated", "First token", "p50; p95", "Added time",
		},
		"#todo":     {"ben", "requests are refused until", "would have been saved", "No price is known of qwen3-coder", "Digits stand for"},
		"#groups":   {"anna", "dora", "Users", "Projects", "Models", "Clients"},
		"#sessions": {"anna", "eve", "other model", "as written", "folded, missed", "would be", "unpriced", "~"},
		"#budgets": {
			"anna", "of $40.00 a day", "ben", "requests are refused", "nightly-build", "soft: nothing is refused",
			"of $400.00 a month",
		},
		"#errors": {"Upstream overloaded", "status 529", "claude-opus-4-6"},
		"#causes": {"Saved by stage", "prune", "Saved by folds", "Cache misses", "lifetime over", "Latency", "added time", "p95"},
		"#queues": {"2 of 2 slots busy, 2 waiting", "eve: 1 ", "nightly-build: "},
		"#system": {"Upstream 127.0.0.1:", "last answer at", "in memory", "turns wait to be written", "may be pinged"},
	} {
		text := v.text(t, element)
		for _, want := range all {
			if !strings.Contains(text, want) {
				t.Errorf("%s says nothing of %q: %s", element, want, text)
			}
		}
	}

	var paint float64
	v.run(t, "first paint", chromedp.Evaluate(`performance.getEntriesByName("first-contentful-paint")[0].startTime`,
		&paint))
	n := v.weighs(admin)
	t.Logf("%d bytes were loaded; first paint after %.0f ms", n, paint)
	if n == 0 || n > largestPage {
		t.Errorf("%d bytes were loaded, of %d at most: %s", n, largestPage, asJSON(v.bytes))
	}

	// By keys alone: to the sessions, and the fourth of the five groupings.
	var skip, by string
	v.run(t, "keys", chromedp.Evaluate(`document.activeElement.blur()`, nil), chromedp.KeyEvent(kb.Tab),
		chromedp.Evaluate(`document.activeElement.className`, &skip),
		chromedp.Focus("#tab-user", chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowRight+kb.ArrowRight+kb.ArrowRight),
		chromedp.Evaluate(`document.activeElement.id + document.activeElement.getAttribute("aria-selected")`, &by))
	if rows := v.text(t, "#rows"); skip != "skip" || by != "tab-modeltrue" || !strings.Contains(rows, "claude-opus-4-6") {
		t.Errorf("the first key leads to %q, the right arrow, three times, to %q, and shows %s", skip, by, rows)
	}
	v.explore(t)
	var html string
	v.run(t, "what it holds", chromedp.Evaluate(`document.documentElement.outerHTML`, &html))
	for _, secret := range []string{"sk-", "Fix the build", "some code", "You are an agent"} {
		if strings.Contains(html, secret) {
			t.Errorf("the page holds %q", secret)
		}
	}
	o.pictures(t, v)

	// A reload ends the stream, which reconnects by itself.
	v.run(t, "the status",
		chromedp.Evaluate(`window.said = []; new MutationObserver(() => `+
			`said.push(document.querySelector("#status").textContent)).observe(document.querySelector("#status"), { `+
			`childList: true, characterData: true, subtree: true })`, nil))
	if err := o.Reload(t.Context(), strings.Replace(o.config, "$40", "$60", 1)); err != nil {
		t.Fatal(err)
	}
	v.await(t,
		`window.said.some((s) => s.startsWith("not connected")) && document.querySelector("#status").textContent === `+
			`"live" && document.querySelector("#budgets").textContent.includes("of $60.00 a day")`)

	site, err := url.Parse(o.url)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Get(o.url + "/team/data") //nolint:noctx // of a test
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a password: %s", res.Status)
	}
	v.open(t, "http://lead:secret@"+site.Host+"/team/", "html[data-ready]")
	strained := o.strained(t, admin)
	v.open(t, "http://"+strained+"/", "html[data-ready]")
	v.look(t, "strained", "dark")
	for element, want := range map[string]string{
		"#sessions": "9 folded, missed 3 times", "#system": "failing", "#strip": "somebody-with", "#todo": "fails",
		"#status": "live", "#saved": "−$",
	} {
		if text := v.text(t, element); !strings.Contains(text, want) {
			t.Errorf("%s says %q", element, text)
		}
	}
	v.fine(t, admin, site.Host, strained)
}

// explore does what a lead does on the page: other times, sorting, searching, a spreadsheet, turns of a user and of a
// session.
func (v *viewer) explore(t *testing.T) {
	t.Helper()
	press := func(k string) { v.run(t, k, chromedp.Click(`[data-k="`+k+`"]`, chromedp.ByQuery)) }
	press("by user")
	press("range 7d")
	v.await(t, `document.querySelector("#today-title").textContent === "Saved in 7 days" && !document.body.hasAttribute("aria-busy")`)
	if text := v.text(t, "#chart"); !strings.Contains(text, "Cost by day") {
		t.Errorf("the chart of 7 days says %q", text)
	}
	press("range month")
	v.await(t, `document.querySelector("#today-title").textContent === "Saved this month"`)
	press("range today")

	press("sort groups 0") // the names from Z on
	press("sort groups 0")
	var names []string
	v.run(t, "names", chromedp.Evaluate(
		`[...document.querySelectorAll("#rows tbody tr td:first-child .name")].map((n) => n.textContent)`, &names))
	if !slices.IsSorted(names) || len(names) < 6 {
		t.Errorf("sorted by name: %q", names)
	}
	v.run(t, "search", chromedp.SendKeys("#search", "ANNA", chromedp.ByQuery))
	var rows, sessions int
	v.run(t, "found", chromedp.Evaluate(`document.querySelectorAll("#rows tbody tr").length`, &rows),
		chromedp.Evaluate(`document.querySelectorAll("#sessions tbody tr").length`, &sessions),
		chromedp.Evaluate(`document.querySelector("#search").value = "";
			document.querySelector("#search").dispatchEvent(new Event("input"))`, nil))
	if rows != 1 || sessions != 1 {
		t.Errorf("a search for anna finds %d users and %d sessions, want one of each", rows, sessions)
	}
	var csv string
	v.run(t, "csv", chromedp.Evaluate(`fetch(document.querySelector("[data-k=csv]").href).then((r) => r.text())`, &csv,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if !strings.HasPrefix(csv, "user,turns,") || !strings.Contains(csv, "\nanna,") {
		t.Errorf("the spreadsheet has %q", csv)
	}

	press("user anna")
	v.await(t, `document.querySelectorAll("#turns tbody tr").length > 20`)
	v.look(t, "turns", "light", "dark")
	for _, want := range []string{"Folds", "lifetime over", "% read", "completed", "on record"} {
		if text := v.text(t, "#turns"); !strings.Contains(text, want) {
			t.Errorf("anna's turns say nothing of %q: %s", want, text)
		}
	}
	press("close")
	v.run(t, "a session", chromedp.Evaluate(`[...document.querySelectorAll("#sessions .link")].find((n) =>
		n.textContent === "anna").click()`, nil))
	v.await(t, `document.querySelectorAll("#turns tbody tr").length > 5`)
	for _, want := range []string{"A session of anna", "Edits in force", "Cache misses", "other model 1", "Last decision"} {
		if text := v.text(t, "#turns"); !strings.Contains(text, want) {
			t.Errorf("anna's session says nothing of %q: %s", want, text)
		}
	}
	v.run(t, "escape", chromedp.KeyEvent(kb.Escape))
	v.await(t, `!document.querySelector("#turns").open`)
}

// strained serves the page with long, large and bad data.
func (o *office) strained(t *testing.T, admin string) (at string) {
	t.Helper()
	var data map[string]any
	if err := o.Get(t.Context(), "/llm_cache/data", &data); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("somebody-with-a-long-name-", 6)
	first := func(path ...string) map[string]any {
		at := data
		for _, name := range path[:len(path)-1] {
			at = at[name].(map[string]any)
		}
		return at[path[len(path)-1]].([]any)[0].(map[string]any)
	}
	maps.Copy(first("sessions", "list"), map[string]any{
		"user": long, "fold_misses": 3, "folded": 9, "model": long,
		"sent": 1.2e9, "saved": -123456.7, "estimated": true,
	})
	maps.Copy(first("budgets"), map[string]any{
		"name": long, "spent": "999999999 tokens of 999999999 tokens a month",
		"share": 12.5,
	})
	maps.Copy(first("queues"), map[string]any{
		"name": long, "slots": 64, "running": 64, "waiting": 12345,
		"expected": 98765,
	})
	maps.Copy(first("health"), map[string]any{
		"state": "failing", "of": long + ".example.com:443",
		"note": "requests in a row without an answer: 12345; last answer at 2026-11-23 02:00:00",
	})
	users := first("today", "dimensions")["sums"].([]any)[0].(map[string]any)
	maps.Copy(users, map[string]any{"name": long, "usd": 1234567.8, "client_usd": 1.0})
	total := data["today"].(map[string]any)["total"].(map[string]any)
	total["usd"] = 1234567.89
	event := "data: " + asJSON(data) + "\n\n"
	to, err := url.Parse("http://" + admin)
	if err != nil {
		t.Fatal(err)
	}
	page := httputil.NewSingleHostReverseProxy(to)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			r.Host = admin
			page.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, event)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return s.Listener.Addr().String()
}

// llmCache runs a command of the Caddy under test, and returns its output.
func (o *office) llmCache(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"llm-cache"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+o.dir, "XDG_DATA_HOME="+o.dir, "XDG_CONFIG_HOME="+o.dir, "NO_COLOR=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// pictures takes screenshots of the terminal commands, if there is a folder for them.
func (o *office) pictures(t *testing.T, v *viewer) {
	t.Helper()
	if v.shots == "" {
		return
	}
	var b strings.Builder
	b.WriteString(`<!doctype html><style>body{margin:0;background:#16181b;color:#e6e7e8;font:14px/1.45 ui-monospace,` +
		`Menlo,"DejaVu Sans Mono",monospace}pre{display:inline-block;margin:0;padding:1.2rem ` +
		`1.5rem}b{color:#5fd3a4;font-weight:400}</style><pre>`)
	for _, args := range [][]string{
		{"report", "--store", o.record, "--since", "24h", "--by", "user"},
		{"statusline", "--admin", o.Admin},
	} {
		shown := strings.NewReplacer(" --store "+o.record, "", " --admin "+o.Admin, "").Replace(strings.Join(args, " "))
		fmt.Fprintf(&b, "<b>$ caddy llm-cache %s</b>\n%s\n", shown, template.HTMLEscapeString(o.llmCache(t, args...)))
	}
	other := openTab(t, needBrowser(t), o.zone.String())
	var shot []byte
	other.run(t, "terminal", chromedp.EmulateViewport(1200, 400),
		chromedp.Navigate("data:text/html;charset=utf-8,"+url.PathEscape(b.String())),
		chromedp.Screenshot("pre", &shot, chromedp.ByQuery))
	v.keep(t, "terminal", shot)
}

// TestReportPage: the report as a page, in the same browser with the same checks.
func TestReportPage(t *testing.T) {
	o := openOffice(t)
	v := newViewer(t, o.zone.String())
	file := filepath.Join(o.dir, "report.html")
	o.llmCache(t, "report", "--store", o.record, "--since", "7d", "--by", "user", "--html", file)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" { // the browser requests an icon
			w.WriteHeader(http.StatusNoContent)
			return
		}
		http.ServeFile(w, r, file)
	}))
	t.Cleanup(s.Close)
	at := s.Listener.Addr().String()
	v.open(t, s.URL+"/", "html[data-ready]")
	v.look(t, "report", "light", "dark")
	for element, all := range map[string][]string{
		"#today": {"Saved", "Cost by day", " to ", "First token"}, "#groups": {"anna", "CSV"},
		"#causes": {"Saved by stage", "Saved by folds", "Cache misses", "Latency"}, "#errors": {"Upstream overloaded"},
	} {
		for _, want := range all {
			if text := v.text(t, element); !strings.Contains(text, want) {
				t.Errorf("%s says nothing of %q: %s", element, want, text)
			}
		}
	}
	var csv string
	v.run(t, "csv", chromedp.Evaluate(`decodeURIComponent(document.querySelector("[data-k=csv]").href)`, &csv))
	if !strings.Contains(csv, "user,turns,") || !strings.Contains(csv, "anna,") {
		t.Errorf("the spreadsheet has %q", csv)
	}
	v.fine(t, at)
	// The data comes on top.
	if n := v.weighs(at); n < 30<<10 || n > largestPage+30<<10 {
		t.Errorf("%d bytes were loaded", n)
	}
}

func asJSON(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
