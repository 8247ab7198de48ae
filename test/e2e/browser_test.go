// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

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

// tab is a page in a browser, with its errors.
type tab struct {
	context.Context
	mu    sync.Mutex
	wrong []string
	bytes map[string]int64 // bytes loaded by address, without streams
	hosts map[string]bool
}

func openTab(t *testing.T, browser, zone string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.UserDataDir(t.TempDir()), chromedp.Env("TZ="+zone))
	// A context that ends with the test would kill Debian's start script, but not the browser.
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	ctx, _ = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("the browser does not close: %v", err)
		}
	})
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
		case *log.EventEntryAdded: // reports policy violations
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

// screens are the screen sizes for checks of a page, from a phone to a wall.
var screens = []struct {
	name       string
	wide, high int64
}{{"phone", 360, 800}, {"tablet", 820, 1180}, {"desk", 1440, 900}, {"wall", 1920, 1080}}

// viewer checks pages in a browser, and stores screenshots in a folder, if any.
type viewer struct {
	*tab
	axe   string // the axe script
	shots string
}

func newViewer(t *testing.T, zone string) *viewer {
	t.Helper()
	browser := needBrowser(t)
	axe := os.Getenv("LLM_CACHE_AXE")
	if axe == "" {
		lacking(t, "axe-core: set LLM_CACHE_AXE to the path of axe.min.js")
	}
	script, err := os.ReadFile(axe)
	if err != nil {
		t.Fatal(err)
	}
	return &viewer{openTab(t, browser, zone), string(script), os.Getenv("LLM_CACHE_SCREENSHOTS")}
}

// open opens a page and waits for an element.
func (v *viewer) open(t *testing.T, address, until string) {
	t.Helper()
	v.run(t, address, log.Enable(), network.Enable(), network.SetCacheDisabled(true), chromedp.Navigate(address),
		chromedp.WaitReady(until, chromedp.ByQuery),
		chromedp.ActionFunc(func(ctx context.Context) error {
			_, wrong, err := runtime.Evaluate(v.axe).Do(ctx)
			if wrong != nil {
				return wrong
			}
			return err
		}))
}

// look checks the open page on all screens, in themes.
func (v *viewer) look(t *testing.T, name string, themes ...string) {
	t.Helper()
	for _, screen := range screens {
		for _, theme := range themes {
			var scroll, wide int64
			var found string
			var shot []byte
			actions := []chromedp.Action{
				chromedp.ActionFunc(func(ctx context.Context) error {
					return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{
						Name:  "prefers-color-scheme",
						Value: theme,
					}}).Do(ctx)
				}), chromedp.EmulateViewport(screen.wide, screen.high),
				chromedp.Evaluate(`document.documentElement.scrollWidth`, &scroll), chromedp.Evaluate(`innerWidth`, &wide),
				chromedp.Evaluate(`axe.run().then((r) => JSON.stringify(r.violations.filter((v) => v.impact === "serious" || `+
					`v.impact === "critical").map((v) => [v.id, v.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary)])))`,
					&found,
					func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
			}
			if v.shots != "" {
				actions = append(actions, chromedp.FullScreenshot(&shot, 100))
			}
			v.run(t, name, actions...)
			if scroll > wide {
				t.Errorf("%s on a %s: %d pixels wide", name, screen.name, scroll)
			}
			if found != "[]" {
				t.Errorf("%s on a %s, %s: axe found %s", name, screen.name, theme, found)
			}
			v.keep(t, name+"-"+screen.name+"-"+theme, shot)
		}
	}
}

// keep stores a screenshot.
func (v *viewer) keep(t *testing.T, name string, shot []byte) {
	t.Helper()
	if v.shots == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(v.shots, name+".png"), shot, 0o600); err != nil {
		t.Fatal(err)
	}
}

// text returns the text of an element.
func (v *viewer) text(t *testing.T, element string) (text string) {
	t.Helper()
	v.run(t, element, chromedp.Text(element, &text, chromedp.ByQuery))
	return text
}

// await waits until an expression in the page is true.
func (v *viewer) await(t *testing.T, what string) {
	t.Helper()
	v.run(t, what, chromedp.Poll(what, nil, chromedp.WithPollingTimeout(30*time.Second)))
}

// fine fails the test after any error on the pages, or a request to another host.
func (v *viewer) fine(t *testing.T, hosts ...string) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.wrong {
		t.Error(w)
	}
	for host := range v.hosts {
		if !slices.Contains(hosts, host) {
			t.Errorf("it asked %s", host)
		}
	}
}

// weighs returns the bytes loaded from a host, without streams.
func (v *viewer) weighs(host string) (all int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for address, n := range v.bytes {
		if strings.HasPrefix(address, "http://"+host) && !strings.HasSuffix(address, "events") {
			all += n
		}
	}
	return all
}
