// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/caddytest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// faultSite is a configuration that stands between the client and the faults.
type faultSite struct {
	name    string
	config  string // PROXY stands for the address and the options of a reverse_proxy
	to      wire.Format
	whole   bool // calls are sent whole
	reads   bool // answers are read for calls that hold what only we put into a prompt
	box     bool
	earlier bool // there has been a request before
	aside   bool // requests come without tools
}

const eagerly = `policy eager
	zones {
		frozen 0
		hot 1
		min_messages 0
	}
`

var faultSites = []faultSite{
	{name: "bare", config: "reverse_proxy PROXY"},
	{name: "native", config: "llm_cache\nreverse_proxy PROXY", reads: true},
	{name: "edited", config: "llm_cache {\n" + eagerly + "expand off\n}\nreverse_proxy PROXY", reads: true},
	{
		name: "expand", config: "llm_cache {\n" + eagerly +
			"compact_tool_results off\nbreakpoints off\nprune {\n after 1\n}\n}\nreverse_proxy PROXY", reads: true,
		earlier: true,
	},
	{name: "calls whole", config: "llm_cache {\n buffer_tool_calls on\n}\nreverse_proxy PROXY", whole: true},
	{name: "side requests", config: "route {\nllm_cache {\n side_requests PROXY\n}\nerror 500\n}", aside: true},
	{name: "box", config: "llm_cache {\n upstream mlx_lm\n}\nreverse_proxy PROXY", to: wire.OpenAIChat, box: true},
	{
		name: "to anthropic", config: "llm_cache {\n upstream {\n format anthropic\n }\n}\nreverse_proxy PROXY",
		to: wire.Anthropic,
	},
	{
		name: "to openai_chat", config: "llm_cache {\n upstream {\n format openai_chat\n }\n}\nreverse_proxy PROXY",
		to: wire.OpenAIChat,
	},
	{
		name: "to openai_responses", config: "llm_cache {\n upstream {\n format openai_responses\n }\n}\nreverse_proxy PROXY",
		to: wire.OpenAIResponses,
	},
	{name: "to gemini", config: "llm_cache {\n upstream {\n format gemini\n }\n}\nreverse_proxy PROXY", to: wire.Gemini},
	{
		name: "to interactions", config: "llm_cache {\n upstream {\n format interactions\n }\n}\nreverse_proxy PROXY",
		to: wire.Interactions,
	},
}

// serveSites runs one Caddy with all sites and returns their addresses by name.
func serveSites(t *testing.T, u *faulty) map[string]string {
	t.Helper()
	proxy := u.Addr().String() + " {\n transport http {\n keepalive off\n compression off\n }\n }"
	addresses := map[string]string{}
	var b strings.Builder
	fmt.Fprintf(&b,
		"{\n admin off\n persist_config off\n auto_https off\n grace_period 100ms\n log {\n output discard\n }\n}\n")
	for _, s := range faultSites {
		addresses[s.name] = testkit.FreeAddress(t)
		fmt.Fprintf(&b, "http://%s {\n%s\n}\n", addresses[s.name], strings.ReplaceAll(s.config, "PROXY", proxy))
	}
	cfg, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(b.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := caddytest.New(t).Load(cfg); err != nil {
		t.Fatal(err)
	}
	return addresses
}

var faultClient = &http.Client{
	Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// meet sends a request in a format to a site, and gets what the fault makes of its
// answer.
func meet(
	t *testing.T, address string, g tongue, stream bool, turns int, fault, session string, aside bool,
) (o outcome) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(),
		&httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			o.hints = append(o.hints, code)
			return nil
		}})
	body := g.request(history(turns), stream)
	if aside {
		without, err := wire.Patch([]byte(body), wire.Member{Name: "tools"})
		if err != nil {
			t.Fatal(err)
		}
		body = string(without)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+g.path(stream), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "X-Fault": {fault}, "X-Session-Id": {session}}
	res, err := faultClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			t.Fatal(context.Cause(ctx))
		}
		o.refused = true
		return o
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	o.status, o.header, o.body, o.cut = res.StatusCode, res.Header, string(got), err != nil
	o.trailer = res.Trailer.Get("X-Checksum")
	return o
}

// unpackedBody undoes a content coding, as far as that goes.
func unpackedBody(coding, body string) (string, error) {
	var r io.Reader
	switch coding {
	case "gzip":
		z, err := gzip.NewReader(strings.NewReader(body))
		if err != nil {
			return "", err
		}
		r = z
	case "zstd":
		z, err := zstd.NewReader(strings.NewReader(body))
		if err != nil {
			return "", err
		}
		defer z.Close()
		r = z
	default:
		return "", fmt.Errorf("%s is not undone", coding)
	}
	var b bytes.Buffer
	_, err := io.Copy(&b, r)
	return b.String(), err
}

// TestFaults puts every site between a client and an upstream that answers badly, in
// every way, in every format, streamed and whole. The client gets what bare Caddy
// would give it, or what a rule says, which is named; it never gets an answer that
// was not one.
func TestFaults(t *testing.T) {
	all := faults()
	if len(all) < 70 {
		t.Errorf("only %d faults", len(all))
	}
	if step := testkit.Every(3); step > 1 {
		var few []fault
		for i := 0; i < len(all); i += step {
			few = append(few, all[i])
		}
		all = few
	}
	u := newFaulty(t, all)
	addresses := serveSites(t, u)
	counts := map[string]map[string]int{} // by site and rule
	var mu sync.Mutex
	var wg sync.WaitGroup
	places := make(chan struct{}, 4*runtime.GOMAXPROCS(0))
	one := func(f fault, stream bool) {
		bare := map[wire.Format]outcome{}
		for _, g := range faultTongues {
			bare[g.format] = meet(t, addresses["bare"], g, stream, 4, f.name, "s", false)
		}
		for _, site := range faultSites[1:] {
			for _, g := range faultTongues {
				if strings.HasPrefix(site.name, "to ") && site.to == g.format {
					continue
				}
				session, turns := f.name+site.name, 4
				if site.aside {
					turns = 0
				}
				if site.earlier {
					meet(t, addresses[site.name], g, stream, 4, "", session, false)
					turns = 5
				}
				got := meet(t, addresses[site.name], g, stream, turns, f.name, session, site.aside)
				var rule, why string
				if site.to == "" || site.to == g.format {
					rule, why = explainNative(site, g.format, stream, bare[g.format], got)
				} else {
					rule, why = explainTranslated(site.to, g.format, stream, bare[site.to], got)
				}
				if rule == "" {
					rule = "UNEXPLAINED"
					t.Errorf("%s, %s, %s, stream %t: %s", f.name, site.name, g.format, stream, why)
				}
				mu.Lock()
				if counts[site.name] == nil {
					counts[site.name] = map[string]int{}
				}
				counts[site.name][rule]++
				mu.Unlock()
			}
		}
	}
	for _, f := range all {
		for _, stream := range []bool{true, false} {
			if !f.has(stream) {
				continue
			}
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				one(f, stream)
			})
		}
	}
	wg.Wait()
	total := 0
	for _, site := range faultSites[1:] {
		for _, rule := range slices.Sorted(maps.Keys(counts[site.name])) {
			t.Logf("%-20s %-55s %5d", site.name, rule, counts[site.name][rule])
			total += counts[site.name][rule]
		}
	}
	t.Logf("%d faults, %d answers", len(all), total)
	for i, g := range faultTongues {
		if u.expanded[i].Load() == 0 {
			t.Errorf("%s: nothing was folded where it should be", g.format)
		}
	}
}
