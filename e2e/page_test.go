// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// largestPage is what the page may weigh in all, in bytes.
const largestPage = 150 << 10

// needBrowser returns the path of a browser, or skips the test.
func needBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("LLM_CACHE_BROWSER"), "chromium-headless-shell", "chromium"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	lacking(t, "a browser: set LLM_CACHE_BROWSER to the path of Chromium or its headless shell")
	return ""
}

// tab is a page in a browser, and what went wrong on it.
type tab struct {
	context.Context
	mu    sync.Mutex
	wrong []string
	bytes map[string]int64 // by the address of what was loaded, streams left out
	hosts map[string]bool
}

func openTab(t *testing.T, browser string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil { // the browser ends with the context of the first run
		t.Fatal(err)
	}
	p := &tab{Context: ctx, bytes: map[string]int64{}, hosts: map[string]bool{}}
	addresses := map[network.RequestID]string{}
	chromedp.ListenTarget(ctx, func(e any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			p.wrong = append(p.wrong, e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
				p.wrong = append(p.wrong, fmt.Sprintf("console: %s", e.Args[0].Value))
			}
		case *log.EventEntryAdded: // violations of the policy are told here
			p.wrong = append(p.wrong, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
		case *network.EventRequestWillBeSent:
			addresses[e.RequestID] = e.Request.URL
			if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" {
				p.hosts[u.Host] = true
			}
		case *network.EventLoadingFinished:
			p.bytes[addresses[e.RequestID]] += int64(e.EncodedDataLength)
		}
	})
	return p
}

func (p *tab) run(t *testing.T, doing string, actions ...chromedp.Action) {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.Context, time.Minute)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		t.Fatalf("%s: %v", doing, err)
	}
}

// spends is a conversation of a person: of so many turns, with a result of several KB in
// each.
func spends(model string, turns int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":%q,"max_tokens":1000,"system":"You are an agent.","tools":[{"name":"Read","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"Fix the build."}`, model)
	for i := range turns {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_%d","name":"Read","input":{"file_path":"/src/file%d.go"}}]}`, i, i)
		result := strings.Repeat(fmt.Sprintf("line of file %d: some code that the model reads once\\n", i), 120)
		mark := ""
		if i == turns-1 {
			mark = `,"cache_control":{"type":"ephemeral"}`
		}
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":"%s"%s}]}`, i, result, mark)
	}
	b.WriteString(`]}`)
	return b.String()
}

// remembering is a model whose provider remembers the last prompt of each key, as far as
// the next one begins with it. Four bytes are a token.
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
		_, _ = fmt.Fprintf(w, `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn","stop_sequence":null,
			"usage":{"input_tokens":3,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":300}}`, (len(prompt)-n)/4, n/4)
	}
}

// dashboard has the command serve the page of the admin endpoint, and returns where.
func (s *stack) dashboard(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "llm-cache", "dashboard", "--admin", s.Admin, "--listen", "127.0.0.1:0")
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

// TestPage: the live page in a browser, on the admin endpoint and as a directive of a
// site behind a password: without an error, a violation of its policy, a request to
// another host, a serious finding of axe, or a scroll bar at 360 pixels.
func TestPage(t *testing.T) {
	needCaddy(t)
	browser := needBrowser(t)
	axe := os.Getenv("LLM_CACHE_AXE")
	if axe == "" {
		lacking(t, "axe-core: set LLM_CACHE_AXE to the path of axe.min.js")
	}
	script, err := os.ReadFile(axe)
	if err != nil {
		t.Fatal(err)
	}
	u := httptest.NewServer(remembering())
	t.Cleanup(u.Close)
	s := startStack(t, setup{
		upstream: u.Listener.Addr().String(), unwatched: true,
		cache: "}\nbasic_auth /team/* {\n lead $2a$14$.gLApYXZmO1i7rNLkE5k/eKikkjqXuJDUPKZNO8hae73UIztTw4nq\n}\nllm_cache_dashboard /team/*\nroute /never {",
	})
	person := func(key, agent, model string, from, to int) {
		for n := from; n < to; n++ {
			m := model
			if n == to-1 {
				m = strings.Replace(model, "4-6", "4-5", 1)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/messages", strings.NewReader(spends(m, n)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {key}, "User-Agent": {agent}, "X-Session-Id": {key + agent}}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s", res.Status, body)
			}
		}
	}
	admin := s.dashboard(t)
	p := openTab(t, browser)
	shots := os.Getenv("LLM_CACHE_SCREENSHOTS")
	look := func(name string) {
		for _, width := range []int64{360, 820, 1440} {
			for _, theme := range []string{"light", "dark"} {
				var scroll, wide int64
				var found string
				var shot []byte
				p.run(t, name, chromedp.ActionFunc(func(ctx context.Context) error {
					return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}).Do(ctx)
				}), chromedp.EmulateViewport(width, 900),
					chromedp.Evaluate(`document.documentElement.scrollWidth`, &scroll), chromedp.Evaluate(`innerWidth`, &wide),
					chromedp.Evaluate(`axe.run().then((r) => JSON.stringify(r.violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => [v.id, v.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary)])))`, &found,
						func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
					chromedp.FullScreenshot(&shot, 100))
				if scroll > wide {
					t.Errorf("%s at %d: %d pixels wide", name, width, scroll)
				}
				if found != "[]" {
					t.Errorf("%s at %d, %s: axe found %s", name, width, theme, found)
				}
				if shots != "" {
					if err := os.WriteFile(filepath.Join(shots, fmt.Sprintf("%s-%d-%s.png", name, width, theme)), shot, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	open := func(name, address string) {
		t.Helper()
		p.run(t, name, log.Enable(), network.Enable(), network.SetCacheDisabled(true), chromedp.Navigate(address), chromedp.WaitReady("html[data-ready]", chromedp.ByQuery),
			chromedp.ActionFunc(func(ctx context.Context) error {
				_, wrong, err := runtime.Evaluate(string(script)).Do(ctx)
				if wrong != nil {
					return wrong
				}
				return err
			}))
	}
	if err := s.Reload(t.Context(), strings.Replace(s.config, "auto_https off", "auto_https off\n\tllm_cache {\n\t\tuser sk-anna anna\n\t\tuser sk-ben ben\n\t}", 1)); err != nil {
		t.Fatal(err)
	}
	open("empty", "http://"+admin+"/llm_cache/")
	look("empty")
	person("sk-anna", "claude-cli/2.1.3", "claude-opus-4-6", 20, 32)
	person("sk-ben", "opencode/1.0", "claude-sonnet-4-6", 12, 20)
	person("sk-carla", "claude-cli/2.1.3", "claude-opus-4-6", 8, 14)
	p.run(t, "an event", chromedp.Poll(`document.querySelectorAll("#list tbody tr").length === 3`, nil, chromedp.WithPollingTimeout(20*time.Second)))
	look("full")

	// By keys alone: the second of the three groupings.
	var by, rows string
	p.run(t, "keys", chromedp.Focus("#tab-people", chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowRight), chromedp.Evaluate(`document.activeElement.id + document.activeElement.getAttribute("aria-selected")`, &by),
		chromedp.Text("#rows", &rows, chromedp.ByQuery))
	if by != "tab-clientstrue" || !strings.Contains(rows, "claude-code") {
		t.Errorf("the right arrow leads to %q, and shows %s", by, rows)
	}
	p.run(t, "people", chromedp.Click("#tab-people", chromedp.ByQuery), chromedp.Text("#rows", &rows, chromedp.ByQuery))
	if !strings.Contains(rows, "anna") || !strings.Contains(rows, "ben") || strings.Contains(rows, "carla") {
		t.Errorf("the people are %s", rows)
	}
	for _, secret := range []string{"sk-anna", "Fix the build", "some code"} {
		var html string
		p.run(t, "what it holds", chromedp.Evaluate(`document.documentElement.outerHTML`, &html))
		if strings.Contains(html, secret) {
			t.Errorf("the page holds %q", secret)
		}
	}
	var paint float64
	p.run(t, "first paint", chromedp.Evaluate(`performance.getEntriesByName("first-contentful-paint")[0].startTime`, &paint))
	t.Logf("first paint after %.0f ms", paint)

	site, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Get(s.url + "/team/data") //nolint:noctx // of a test
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a password: %s", res.Status)
	}
	open("site", "http://lead:secret@"+site.Host+"/team/")

	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.wrong {
		t.Error(w)
	}
	for host := range p.hosts {
		if host != admin && host != site.Host {
			t.Errorf("it asked %s", host)
		}
	}
	var all int64
	for address, n := range p.bytes {
		if strings.HasPrefix(address, "http://"+admin) && !strings.HasSuffix(address, "events") {
			all += n
		}
	}
	if all == 0 || all > largestPage {
		t.Errorf("%d bytes were loaded, of %d at most: %s", all, largestPage, asJSON(p.bytes))
	}
	t.Logf("%d bytes were loaded", all)
}

func asJSON(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
